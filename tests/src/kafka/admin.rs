//! Requests to the cluster's administration, waited for.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaResult;

use super::Broker;

pub(super) type Admin = AdminClient<DefaultClientContext>;

pub(super) fn client(broker: &Broker) -> Admin {
    broker
        .client()
        .create()
        .expect("these are properties of every client")
}

pub(super) fn options() -> AdminOptions {
    let patience = Some(Duration::from_secs(60));
    AdminOptions::new()
        .request_timeout(patience)
        .operation_timeout(patience)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a request. Another thread, of the client, completes it.
pub(super) fn wait<F: Future>(request: F) -> F::Output {
    let mut request = pin!(request);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match request.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Waits for a request about topics, all of which must succeed.
pub(super) fn succeeds(
    request: impl Future<Output = KafkaResult<Vec<TopicResult>>>,
) -> Result<(), String> {
    for result in wait(request).map_err(|error| error.to_string())? {
        result.map_err(|(topic, error)| format!("{topic}: {error}"))?;
    }
    Ok(())
}
