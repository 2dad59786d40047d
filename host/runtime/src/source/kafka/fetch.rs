//! Messages from librdkafka, in batches.
//!
//! The `rdkafka` crate hands over one message a call, with an allocation and two atomic counts for each. Here the queues of the assigned
//! partitions are forwarded to one of our own, which is emptied by `rd_kafka_consume_batch_queue`. Logs and troubles of
//! connections stay on the consumer's own queue, where the crate serves them ([`Fetcher::serve`]).
//!
//! Headers are read here too: the crate takes their names for UTF-8 and panics where they are not.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::bindings as rd;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaRespErr;

use crate::headers::Header;
use crate::kafka::{self, Context};

/// Messages taken at a time. Their memory was counted as read ahead before.
const BATCH: usize = 512;

/// How long a consumer may take to close before it is left to itself.
const CLOSING: Duration = Duration::from_secs(2);

/// A consumer of assigned partitions.
pub(super) struct Fetcher {
    /// Always there, but while it is dropped.
    consumer: Option<BaseConsumer<Context>>,
    /// Where the queues of all assigned partitions lead.
    queue: NonNull<rd::rd_kafka_queue_t>,
    /// Taken from the queue; those from `at` on are ours to destroy.
    messages: Vec<*mut rd::rd_kafka_message_t>,
    at: usize,
    /// Partitions that were assigned again; see [`Fetcher::restart`].
    restarted: BTreeSet<(String, i32)>,
}

// SAFETY: librdkafka's objects may be used from any thread, and nobody else has these.
unsafe impl Send for Fetcher {}

impl Fetcher {
    pub(super) fn new(config: &ClientConfig, name: &str) -> Result<Fetcher, kafka::Error> {
        let failed = |error| kafka::Error::client(name, &error);
        let consumer =
            BaseConsumer::from_config_and_context(config, Context::new(name)).map_err(failed)?;
        // SAFETY: the client is alive.
        let queue = unsafe { rd::rd_kafka_queue_new(consumer.client().native_ptr()) };
        let queue = NonNull::new(queue)
            .ok_or_else(|| failed(KafkaError::ClientCreation("no queue".to_owned())))?;
        Ok(Fetcher {
            consumer: Some(consumer),
            queue,
            messages: Vec::with_capacity(BATCH),
            at: 0,
            restarted: BTreeSet::new(),
        })
    }

    pub(super) fn consumer(&self) -> &BaseConsumer<Context> {
        self.consumer.as_ref().expect("it is there until the end")
    }

    /// Begins to fetch these partitions, each from its offset.
    pub(super) fn assign<'a>(
        &self,
        partitions: impl Iterator<Item = (&'a str, i32, i64)>,
    ) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for (topic, partition, offset) in partitions {
            self.forward(topic, partition)?;
            list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        }
        if list.count() == 0 {
            return Ok(());
        }
        self.consumer().incremental_assign(&list)
    }

    /// Fetches this partition no longer. Messages of it that were taken already still come.
    pub(super) fn unassign(&self, topic: &str, partition: i32) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        list.add_partition(topic, partition);
        self.consumer().incremental_unassign(&list)
    }

    /// Goes on with this partition at another offset, whatever state it is in.
    ///
    /// Its queue leads nowhere once it has stopped, which librdkafka does some time later and tells nobody, and from then on its
    /// messages stay in it. So it is led to ours again each time the consumer is served; what lies in it comes along.
    pub(super) fn restart(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(), KafkaError> {
        self.unassign(topic, partition)?;
        self.restarted.insert((topic.to_owned(), partition));
        self.assign([(topic, partition, offset)].into_iter())
    }

    /// Leads a partition's queue to ours, for as long as there is that partition; also before it is assigned.
    fn forward(&self, topic: &str, partition: i32) -> Result<(), KafkaError> {
        let failed = || KafkaError::MessageConsumption(RDKafkaErrorCode::UnknownPartition);
        let name = CString::new(topic).map_err(|_| failed())?;
        // SAFETY: client and name are alive; a queue that is returned is ours to destroy.
        unsafe {
            let client = self.consumer().client().native_ptr();
            let queue = rd::rd_kafka_queue_get_partition(client, name.as_ptr(), partition);
            if queue.is_null() {
                return Err(failed());
            }
            rd::rd_kafka_queue_forward(queue, self.queue.as_ptr());
            rd::rd_kafka_queue_destroy(queue);
        }
        Ok(())
    }

    /// The next message. Without waiting: `None` if there is none yet.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Message<'_>> {
        if self.at == self.messages.len() {
            self.refill();
        }
        let message = NonNull::new(*self.messages.get(self.at)?)?;
        self.at += 1;
        Some(Message {
            message,
            of: PhantomData,
        })
    }

    fn refill(&mut self) {
        self.messages.clear();
        self.at = 0;
        // SAFETY: the queue is alive, and there is room for as many pointers as are asked for; so many as are returned were written.
        unsafe {
            let count = rd::rd_kafka_consume_batch_queue(
                self.queue.as_ptr(),
                0,
                self.messages.as_mut_ptr(),
                BATCH,
            );
            self.messages.set_len(usize::try_from(count).unwrap_or(0));
        }
    }

    /// Serves what is not messages: logs, and troubles, of which it returns one.
    pub(super) fn serve(&self) -> Option<KafkaError> {
        for (topic, partition) in &self.restarted {
            if let Err(error) = self.forward(topic, *partition) {
                return Some(error);
            }
        }
        // A bounded number: a broken network has much to say.
        for _ in 0..16 {
            match self.consumer().poll(Duration::ZERO) {
                None => return None,
                Some(Err(KafkaError::PartitionEOF(_))) => {}
                Some(Err(error)) => return Some(error),
                // Partitions lead to our own queue. Better to start over from the checkpoint than to lose one.
                Some(Ok(_)) => {
                    return Some(KafkaError::MessageConsumptionFatal(
                        RDKafkaErrorCode::Inconsistent,
                    ));
                }
            }
        }
        None
    }

    /// The end of a partition as of the last fetch, `None` before the first.
    pub(super) fn known_end(&self, topic: &str, partition: i32) -> Option<i64> {
        let name = CString::new(topic).ok()?;
        let (mut low, mut high) = (0, 0);
        // SAFETY: client and name are alive, and the numbers are written to ours.
        let error = unsafe {
            rd::rd_kafka_get_watermark_offsets(
                self.consumer().client().native_ptr(),
                name.as_ptr(),
                partition,
                &raw mut low,
                &raw mut high,
            )
        };
        (error == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0).then_some(high)
    }
}

/// Waits for a consumer to close for a bounded time: with brokers that are away it may take long.
impl Drop for Fetcher {
    fn drop(&mut self) {
        for message in self.messages.drain(..).skip(self.at) {
            // SAFETY: it was taken from the queue, is destroyed once, and the client is alive.
            unsafe { rd::rd_kafka_message_destroy(message) }
        }
        // SAFETY: it is ours, and the client is alive.
        unsafe { rd::rd_kafka_queue_destroy(self.queue.as_ptr()) }
        let consumer = self.consumer.take();
        let (closed, wait) = mpsc::channel::<()>();
        let close = move || {
            drop(consumer);
            drop(closed);
        };
        if thread::Builder::new()
            .name("kafka-close".to_owned())
            .spawn(close)
            .is_ok()
        {
            // Nothing is sent: it ends when the sender is dropped.
            let _ = wait.recv_timeout(CLOSING);
        }
    }
}

/// A message, or an error of a partition.
pub(super) struct Message<'a> {
    message: NonNull<rd::rd_kafka_message_t>,
    of: PhantomData<&'a mut Fetcher>,
}

impl Drop for Message<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it was taken from the queue, nobody else has it, and the client outlives it.
        unsafe { rd::rd_kafka_message_destroy(self.message.as_ptr()) }
    }
}

impl Message<'_> {
    #[inline]
    fn raw(&self) -> &rd::rd_kafka_message_t {
        // SAFETY: it is valid until it is destroyed, and nobody changes it.
        unsafe { self.message.as_ref() }
    }

    /// What the partition is known by while the assignment does not change.
    #[inline]
    pub(super) fn place(&self) -> (usize, i32) {
        (self.raw().rkt as usize, self.raw().partition)
    }

    pub(super) fn topic(&self) -> String {
        if self.raw().rkt.is_null() {
            return String::new();
        }
        // SAFETY: the topic belongs to the message; its name ends in a zero.
        let name = unsafe { CStr::from_ptr(rd::rd_kafka_topic_name(self.raw().rkt)) };
        name.to_string_lossy().into_owned()
    }

    #[inline]
    pub(super) fn offset(&self) -> i64 {
        self.raw().offset
    }

    /// If it is an error of a partition and no record.
    #[inline]
    pub(super) fn error(&self) -> Option<RDKafkaErrorCode> {
        let error = self.raw().err;
        (error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| error.into())
    }

    /// What librdkafka says of the error.
    pub(super) fn error_text(&self) -> String {
        // SAFETY: the message is valid; the text belongs to it and ends in a zero.
        let text = unsafe { rd::rd_kafka_message_errstr(self.message.as_ptr()) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: see above.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }

    /// `None`: null.
    #[inline]
    pub(super) fn key(&self) -> Option<&[u8]> {
        let raw = self.raw();
        // SAFETY: what it points to belongs to the message.
        unsafe { bytes(raw.key, raw.key_len) }
    }

    /// `None`: null.
    #[inline]
    pub(super) fn value(&self) -> Option<&[u8]> {
        let raw = self.raw();
        // SAFETY: what it points to belongs to the message.
        unsafe { bytes(raw.payload, raw.len) }
    }

    /// Milliseconds since the epoch, if it has any.
    #[inline]
    pub(super) fn timestamp(&self) -> Option<i64> {
        let mut kind = rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is valid, and the kind is written to ours.
        let time = unsafe { rd::rd_kafka_message_timestamp(self.message.as_ptr(), &raw mut kind) };
        let none = rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        (kind != none && time != -1).then_some(time)
    }

    pub(super) fn headers(&self) -> Headers<'_> {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is valid; the list belongs to it, and is not written where there is none.
        unsafe { rd::rd_kafka_message_headers(self.message.as_ptr(), &raw mut headers) };
        Headers {
            headers,
            next: 0,
            of: PhantomData,
        }
    }
}

/// # Safety
/// `start` is null, or `len` bytes there live as long as what is returned.
#[inline]
unsafe fn bytes<'a>(start: *mut c_void, len: usize) -> Option<&'a [u8]> {
    // SAFETY: by the caller's word.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start.cast(), len) })
}

/// The headers of a message in order.
#[derive(Clone)]
pub(super) struct Headers<'a> {
    /// Null where there are none.
    headers: *mut rd::rd_kafka_headers_t,
    next: usize,
    of: PhantomData<&'a ()>,
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    #[inline]
    fn next(&mut self) -> Option<Header<'a>> {
        if self.headers.is_null() {
            return None;
        }
        let (mut name, mut contents, mut len) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the list belongs to a message that is borrowed; past its end an error is returned and nothing is written. Names end in a
        // zero, and both live as long as the message.
        unsafe {
            let error = rd::rd_kafka_header_get_all(
                self.headers,
                self.next,
                &raw mut name,
                &raw mut contents,
                &raw mut len,
            );
            if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                return None;
            }
            self.next += 1;
            Some((
                CStr::from_ptr(name).to_bytes(),
                bytes(contents.cast_mut(), len),
            ))
        }
    }
}
