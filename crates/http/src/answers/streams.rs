//! How many streams there are: each keeps a connection and a place on the bus for as long as its
//! client wants.

use super::crowded;
use crate::problem::Problem;
use crate::wire::connection::Connection;
use std::rc::Rc;

/// A place among the streams, given back when this is dropped.
pub(super) struct StreamPlace(Rc<Connection>);

impl StreamPlace {
    pub(super) fn take(connection: &Rc<Connection>) -> Result<StreamPlace, Problem> {
        let shared = connection.shared();
        if shared.streams.get() >= shared.options.limits.streams_max {
            return Err(crowded());
        }
        shared.streams.set(shared.streams.get() + 1);
        Ok(StreamPlace(Rc::clone(connection)))
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let streams = &self.0.shared().streams;
        streams.set(streams.get() - 1);
    }
}
