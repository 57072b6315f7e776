//! The client on tokio: one thread, its own sockets.

use crate::meter::Reading;
use crate::server;
use postgres_client::Platform;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

/// This program's side of the client. It takes a reading when the work begins and another when
/// the work is done.
#[derive(Clone, Default)]
struct Native(Rc<RefCell<Option<Reading>>>);

impl Platform for Native {
    type Stream = TcpStream;

    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        spawn_local(task);
    }

    fn say(&self, line: &str) {
        if line == "ready" || line == "idle" {
            *self.0.borrow_mut() = Some(Reading::now());
        } else if let Some(start) = self.0.borrow_mut().take() {
            start.print_until(Reading::now(), 0);
        }
    }
}

pub(crate) fn run(work: &str, number: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let native = Native::default();
    let words = [server(), work.to_owned(), number.to_string()];
    let client = postgres_client::run(native.clone(), &words);
    LocalSet::new().block_on(&runtime, async {
        if work != "idle" {
            return client.await.expect("the database answers");
        }
        // The time runs from the moment when the client has nothing to do.
        let idle = tokio::time::timeout(Duration::from_millis(number), client).await;
        assert!(idle.is_err(), "the client waits for ever");
        native.0.borrow_mut().take().expect("it was idle").print_until(Reading::now(), 1);
    });
}
