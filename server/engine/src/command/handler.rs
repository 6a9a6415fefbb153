//! What executes a command: a function on keys, the interpreter of scripts, the node, or nothing.

use crate::channels::Subscription;
use crate::context::CommandContext;
use crate::error::ErrorReply;
use crate::reply::Reply;

/// What executes a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handler {
    /// A function on keys. Its arguments begin with the command's name.
    Keys(KeysFunction),
    /// The same, but for these subcommands, which the node executes.
    KeysAndNode(KeysFunction, NodeCommand, &'static [&'static str]),
    /// The interpreter, which is above this table.
    Script(ScriptCommand),
    /// The node, which is above the engine.
    Node(NodeCommand),
    /// A node does not have the command, for this reason.
    Refused(&'static str),
}

/// Runs a command on keys.
pub(crate) type KeysFunction = fn(&mut CommandContext<'_>, &[&[u8]]) -> Result<Reply, ErrorReply>;

/// The commands that run or keep scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptCommand {
    /// Runs the text that came with it.
    Eval {
        /// The script may not write.
        is_read_only: bool,
    },
    /// Runs a text that is known, named by its SHA-1.
    EvalSha {
        /// The script may not write.
        is_read_only: bool,
    },
    /// SCRIPT and its subcommands.
    Manage,
}

/// The commands about the connection and the node. What executes them is the node's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each has the name of its command")]
pub enum NodeCommand {
    Acl,
    Auth,
    Hello,
    Quit,
    Reset,
    Ping,
    Echo,
    Select,
    Client,
    Info,
    Config,
    /// CLUSTER, READONLY, READWRITE and ASKING.
    Cluster,
    Role,
    Wait,
    WaitAof,
    BgRewriteAof,
    Save,
    BgSave,
    Module,
    Debug,
    LastSave,
    Shutdown,
    SlowLog,
    Latency,
    Memory,
    Monitor,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    /// SUBSCRIBE, PSUBSCRIBE and SSUBSCRIBE.
    Subscribe(Subscription),
    /// UNSUBSCRIBE, PUNSUBSCRIBE and SUNSUBSCRIBE.
    Unsubscribe(Subscription),
    PubSub,
    Command,
}
