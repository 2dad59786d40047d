/**
 * Counts the records of each key, and says the count when the input has ended.
 *
 * The same operator as ../count, written in JavaScript against wit/operator.wit itself: what Rust's
 * SDK shows a record at a time comes as a batch of columns here, and state is read and written a
 * column at a time.
 */

import { emit } from "weir:operator/output@0.1.0";
import { get, put } from "weir:operator/state@0.1.0";
import { set } from "weir:operator/timers@0.1.0";

// Positions in the description's lists, by which calls name them.
const COUNT = 0;
const END = 0;
const COUNTS = 0;

// Event time when the input has ended: the maximum of s64.
const END_OF_INPUT = 2n ** 63n - 1n;

export const lifecycle = {
  describe(config) {
    return {
      name: "wordcount-count",
      version: "0.1.0",
      inputs: [{ name: "words", kind: "keyed", headers: false, options: [] }],
      outputs: [{ name: "counts", keys: "kept", options: [] }],
      states: [
        {
          name: "count",
          kind: "value",
          version: 1,
          migratesFrom: [],
          ttl: undefined,
          valueEncoding: "u64-le",
          entryEncoding: "",
          options: [],
        },
      ],
      timers: [{ name: "end", domain: "event", options: [] }],
      onWatermark: false,
      options: [],
    };
  },

  open(config) {
    if (config !== "null") {
      throw `there is nothing to configure, found ${config}`;
    }
  },

  process(batch, now) {
    const { distinct, index } = batch.keys;
    const keys = positions(distinct.offsets.length - 1);
    const values = get(COUNT, { keys, namespaces: undefined });
    const counts = stored(values);

    // `present` is empty if every key has a number, as is usual.
    if (values.present.length > 0) {
      const fresh = keys.filter((key) => values.present[key] === 0);
      const times = new BigInt64Array(fresh.length).fill(END_OF_INPUT);
      set(END, { keys: fresh, namespaces: undefined }, times);
    }

    // Each row has the position of its key; without positions, row i has key i.
    const keyOf = index.length > 0 ? index : keys;
    for (let row = 0; row < keyOf.length; row++) {
      counts[keyOf[row]]++;
    }
    put(COUNT, { keys, namespaces: undefined }, toStore(counts));
  },

  onTimers(due, now) {
    const rows = positions(due.times.length);
    const counts = stored(get(COUNT, { keys: rows, namespaces: undefined }));
    const lines = [];
    for (const row of rows) {
      lines.push(encoder.encode(`${text(due.keys, row)}\t${counts[row]}`));
    }
    emit(COUNTS, {
      origins: rows,
      keys: undefined,
      values: column(lines),
      times: undefined,
      headers: undefined,
    });
  },

  onWatermark(now) {},

  finish(now) {},

  migrate(state, version, names, values) {
    throw { row: undefined, message: `state \`${state}\` has no version ${version}` };
  },
};

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Makes arrays of 0, step, 2 * step and so on. They never change, so one is enough. */
function counting(step) {
  let all = new Uint32Array();
  return (count) => {
    if (all.length < count) {
      all = Uint32Array.from({ length: count }, (_, position) => step * position);
    }
    return all.subarray(0, count);
  };
}

const positions = counting(1);
const eights = counting(8);

/** The numbers of cells, 0 where there is none: eight bytes each, as this machine has them. */
function stored({ present, data }) {
  const numbers = new BigUint64Array(data.slice().buffer);
  if (present.length === 0) {
    return numbers;
  }
  let next = 0;
  return BigUint64Array.from(present, (there) => (there ? numbers[next++] : 0n));
}

/** The opposite of `stored`. */
function toStore(numbers) {
  const offsets = eights(numbers.length + 1);
  return { present: new Uint8Array(), offsets, data: new Uint8Array(numbers.buffer) };
}

/** A string of a column as text. */
function text({ offsets, data }, row) {
  try {
    return decoder.decode(data.subarray(offsets[row], offsets[row + 1]));
  } catch (error) {
    throw { row, message: `${error}\n${error.stack}` };
  }
}

/** A column of strings, none of which is null. */
function column(strings) {
  const offsets = new Uint32Array(strings.length + 1);
  strings.forEach((string, row) => {
    offsets[row + 1] = offsets[row] + string.length;
  });
  const data = new Uint8Array(offsets[strings.length]);
  strings.forEach((string, row) => data.set(string, offsets[row]));
  return { present: new Uint8Array(), offsets, data };
}
