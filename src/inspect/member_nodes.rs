//! What nodes are asked and told where the members of their cluster change.

use quorlock_client_rules::inspection::node_reply::NodeReply;
use quorlock_client_rules::inspection::question;

use super::nodes::{AskedNode, ListedNode};

impl ListedNode {
    /// Has the node go by this size of its cluster, or by the one that it has, also after its next start. Returns why that is not in its
    /// configuration file, where it is not.
    pub(super) async fn set_cluster_size(
        &mut self,
        size: Option<&str>,
    ) -> Result<Option<String>, String> {
        let node = self.answering()?;
        if let Some(size) = size {
            node.command(&["CONFIG", "SET", "cluster-size", size])
                .await?;
        }
        Ok(node.command(&["CONFIG", "REWRITE"]).await.err())
    }

    /// A number that no fence of this node is above, and whether that is certain.
    pub(super) async fn ceiling(&mut self) -> Result<(u64, bool), String> {
        let node = self.answering()?;
        let reply = node.reply(&["LOCK.CEILING"]).await?;
        match reply.parts() {
            Some([ceiling, is_certain]) => match (ceiling.count(), is_certain.count()) {
                (Some(ceiling), Some(is_certain)) => Ok((ceiling, is_certain == 1)),
                _ => Err(reply.refusal()),
            },
            _ => Err(reply.refusal()),
        }
    }

    /// Has the node take no fence up to this one.
    pub(super) async fn raise_fences(&mut self, floor: u64) -> Result<(), String> {
        let node = self.answering()?;
        let reply = node.reply(&["LOCK.ADOPT", &floor.to_string()]).await?;
        match reply.count() {
            Some(_) => Ok(()),
            None => Err(reply.refusal()),
        }
    }

    fn answering(&mut self) -> Result<&mut AskedNode, String> {
        self.asked.as_mut().map_err(|why| why.clone())
    }
}

impl AskedNode {
    async fn command(&mut self, words: &[&str]) -> Result<(), String> {
        match self.reply(words).await? {
            NodeReply::Text(text) if text == b"OK" => Ok(()),
            other => Err(other.refusal()),
        }
    }

    async fn reply(&mut self, words: &[&str]) -> Result<NodeReply, String> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.link.ask_one(question::request(&words)).await
    }
}
