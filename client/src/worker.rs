//! The client's own thread.

use tokio::sync::mpsc;

use crate::address::NodeAddress;
use crate::orders::Order;
use crate::outcome::BuildError;
use crate::settings::Settings;

pub(crate) fn start(
    _nodes: Vec<NodeAddress>,
    _settings: Settings,
) -> Result<mpsc::UnboundedSender<Order>, BuildError> {
    let (orders, _received) = mpsc::unbounded_channel();
    Ok(orders)
}
