//! What executes the commands about the connection and the node. Their rows are in the engine, in the table of all commands.

use quorlock_engine::NodeCommand;

use crate::core::commit::Failure;
use crate::session::answered::{Answered, Unanswered};
use crate::session::batch::{Answer, Batch};
use crate::session::{
    Session, about, acl, client, config, debug, greeting, info, introspection, latency, memory,
    monitor, slow_log, subscriptions, transaction, waitaof,
};

type NodeFunction = for<'a> fn(&mut Session, &mut Batch<'a>, &[&[u8]]) -> Answered;

impl Batch<'_> {
    /// Executes a command of the node, whose arguments are right in number.
    pub(super) fn execute_of_node(
        &mut self,
        session: &mut Session,
        command: NodeCommand,
        arguments: &[&[u8]],
    ) -> Result<Answer, Failure> {
        let function: NodeFunction = match command {
            NodeCommand::Acl => acl::acl,
            NodeCommand::Auth => greeting::auth,
            NodeCommand::Hello => greeting::hello,
            NodeCommand::Quit => greeting::quit,
            NodeCommand::Reset => greeting::reset,
            NodeCommand::Ping => greeting::ping,
            NodeCommand::Echo => greeting::echo,
            NodeCommand::Select => greeting::select,
            NodeCommand::Client => client::client,
            NodeCommand::Info => info::info,
            NodeCommand::Config => config::config,
            NodeCommand::Cluster => about::cluster,
            NodeCommand::Role => about::role,
            NodeCommand::Wait => waitaof::wait,
            NodeCommand::WaitAof => waitaof::waitaof,
            NodeCommand::BgRewriteAof => about::bgrewriteaof,
            NodeCommand::Save => about::save,
            NodeCommand::BgSave => about::bgsave,
            NodeCommand::Module => about::module,
            NodeCommand::Debug => debug::debug,
            NodeCommand::LastSave => about::lastsave,
            NodeCommand::Shutdown => about::shutdown,
            NodeCommand::SlowLog => slow_log::slowlog,
            NodeCommand::Latency => latency::latency,
            NodeCommand::Memory => memory::memory,
            NodeCommand::Monitor => monitor::monitor,
            NodeCommand::Multi => transaction::multi,
            NodeCommand::Exec => transaction::exec,
            NodeCommand::Discard => transaction::discard,
            NodeCommand::Watch => transaction::watch,
            NodeCommand::Unwatch => transaction::unwatch,
            NodeCommand::Subscribe(to) => {
                let answered = subscriptions::subscribe(session, self, to, arguments);
                return answered.or_else(Unanswered::into_answer);
            }
            NodeCommand::Unsubscribe(to) => {
                let answered = subscriptions::unsubscribe(session, self, to, arguments);
                return answered.or_else(Unanswered::into_answer);
            }
            NodeCommand::PubSub => subscriptions::pubsub,
            NodeCommand::Command => introspection::command,
        };
        function(session, self, arguments).or_else(Unanswered::into_answer)
    }
}
