//! What librdkafka can and the `rdkafka` crate does not wrap: ids of topics.
//!
//! A topic that was deleted and created again has the same name and another id, and offsets, markers and output that belong to the old one
//! do not belong to it. `rd_kafka_DescribeTopics` (an admin request, which never creates a topic) tells ids.

use std::ffi::{CStr, CString};
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka::bindings as rd;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::types::RDKafkaRespErr;

/// A topic as a broker describes it.
#[derive(Debug)]
pub(super) struct Described {
    pub(super) name: String,
    /// Unless there is an error: its id, 128 bits as Kafka prints them (base64).
    pub(super) id: String,
    pub(super) partitions: Vec<i32>,
    /// Replicas of the partition that has the fewest.
    pub(super) replicas: usize,
    /// What the broker says of this topic.
    pub(super) error: Option<RDKafkaErrorCode>,
}

/// Destroys something of librdkafka's when it goes out of scope.
struct Owned<T>(NonNull<T>, unsafe extern "C" fn(*mut T));

impl<T> Owned<T> {
    /// `None` for a null pointer.
    fn new(pointer: *mut T, destroy: unsafe extern "C" fn(*mut T)) -> Option<Owned<T>> {
        Some(Owned(NonNull::new(pointer)?, destroy))
    }

    fn ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from librdkafka together with its destructor, is owned by this value alone, and is not used after.
        unsafe { (self.1)(self.0.as_ptr()) }
    }
}

/// Describes topics by name, in the order asked. Blocks for `timeout` at most.
///
/// # Errors
/// The request as a whole failed.
pub(super) fn describe_topics<C: ClientContext>(
    client: &Client<C>,
    names: &[String],
    timeout: Duration,
) -> Result<Vec<Described>, KafkaError> {
    let failed = |code| KafkaError::AdminOp(code);
    let names: Vec<CString> = names
        .iter()
        .map(|name| CString::new(name.as_str()))
        .collect::<Result<_, _>>()
        .map_err(|_| failed(RDKafkaErrorCode::InvalidTopic))?;
    let mut pointers: Vec<*const std::ffi::c_char> =
        names.iter().map(|name| name.as_ptr()).collect();
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let memory = || failed(RDKafkaErrorCode::Fail);

    // SAFETY: the array holds as many valid strings as is said; librdkafka copies them.
    let collection = unsafe {
        rd::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len())
    };
    let collection =
        Owned::new(collection, rd::rd_kafka_TopicCollection_destroy).ok_or_else(memory)?;
    // SAFETY: the client is alive as long as it is borrowed.
    let options = unsafe {
        rd::rd_kafka_AdminOptions_new(
            client.native_ptr(),
            rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
        )
    };
    let options = Owned::new(options, rd::rd_kafka_AdminOptions_destroy).ok_or_else(memory)?;
    // SAFETY: the options are alive; without a buffer there is no text of an error.
    let set = unsafe {
        rd::rd_kafka_AdminOptions_set_request_timeout(options.ptr(), millis, ptr::null_mut(), 0)
    };
    if set != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Err(failed(set.into()));
    }
    // SAFETY: the client is alive.
    let queue = unsafe { rd::rd_kafka_queue_new(client.native_ptr()) };
    let queue = Owned::new(queue, rd::rd_kafka_queue_destroy).ok_or_else(memory)?;
    // SAFETY: all four are alive during the call, and what is still needed afterwards is copied.
    unsafe {
        rd::rd_kafka_DescribeTopics(
            client.native_ptr(),
            collection.ptr(),
            options.ptr(),
            queue.ptr(),
        );
    }
    // The request itself ends after its timeout; a little more, so that its own error is seen.
    // SAFETY: the queue is alive.
    let event = unsafe { rd::rd_kafka_queue_poll(queue.ptr(), millis.saturating_add(1_000)) };
    let event = Owned::new(event, rd::rd_kafka_event_destroy)
        .ok_or_else(|| failed(RDKafkaErrorCode::OperationTimedOut))?;
    // SAFETY: the event is alive.
    let error = unsafe { rd::rd_kafka_event_error(event.ptr()) };
    if error != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Err(failed(error.into()));
    }
    // SAFETY: the event is alive; the result belongs to it, and is null if it is of another kind.
    let result = unsafe { rd::rd_kafka_event_DescribeTopics_result(event.ptr()) };
    if result.is_null() {
        return Err(failed(RDKafkaErrorCode::Fail));
    }
    let mut count = 0;
    // SAFETY: the result is alive; it gives an array of `count` pointers that belong to it.
    let topics = unsafe { rd::rd_kafka_DescribeTopics_result_topics(result, &raw mut count) };
    let mut described = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: `at` is below the length of the array, and each of its pointers is valid while the event is alive.
        described.push(unsafe { describe(*topics.add(at)) });
    }
    Ok(described)
}

/// Copies a description.
///
/// # Safety
/// `topic` is valid.
unsafe fn describe(topic: *const rd::rd_kafka_TopicDescription_t) -> Described {
    // SAFETY: strings and arrays belong to the description, which is valid; strings end in a zero.
    unsafe {
        let name = CStr::from_ptr(rd::rd_kafka_TopicDescription_name(topic));
        let error = rd::rd_kafka_error_code(rd::rd_kafka_TopicDescription_error(topic));
        let id = rd::rd_kafka_TopicDescription_topic_id(topic);
        let id = if id.is_null() {
            String::new()
        } else {
            CStr::from_ptr(rd::rd_kafka_Uuid_base64str(id))
                .to_string_lossy()
                .into_owned()
        };
        let mut count = 0;
        let partitions = rd::rd_kafka_TopicDescription_partitions(topic, &raw mut count);
        let replicas = (0..count).map(|at| {
            let mut replicas = 0;
            rd::rd_kafka_TopicPartitionInfo_replicas(*partitions.add(at), &raw mut replicas);
            replicas
        });
        let replicas = replicas.min().unwrap_or(0);
        let partitions =
            (0..count).map(|at| rd::rd_kafka_TopicPartitionInfo_partition(*partitions.add(at)));
        let ok = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
        Described {
            name: name.to_string_lossy().into_owned(),
            id,
            partitions: partitions.collect(),
            replicas,
            error: (error != ok).then(|| error.into()),
        }
    }
}
