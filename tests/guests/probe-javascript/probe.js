/**
 * An operator in JavaScript that does what its records say, so that tests see what JavaScript gets of
 * the host: what it prints, how it fails, what it finds of the world. Anything else it passes on.
 */

import { emit } from "weir:operator/output@0.1.0";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export const lifecycle = {
  describe(config) {
    return {
      name: "probe-javascript",
      version: "",
      inputs: [{ name: "in", kind: "unkeyed", headers: false, options: [] }],
      outputs: [{ name: "out", keys: "kept", options: [] }],
      states: [],
      timers: [],
      onWatermark: false,
      options: [],
    };
  },

  open(config) {},

  process({ values: { offsets, data }, times }, now) {
    for (let row = 0; row < times.length; row++) {
      const action = decoder.decode(data.subarray(offsets[row], offsets[row + 1]));
      if (action === "throw") {
        throw new RangeError("row without a cause");
      }
      let value;
      try {
        value = act(action, now);
      } catch (error) {
        throw { row, message: `${error}\n${error.stack}` };
      }
      if (value !== undefined) {
        const bytes = encoder.encode(value);
        const offsets = Uint32Array.of(0, bytes.length);
        emit(0, {
          origins: Uint32Array.of(row),
          keys: undefined,
          values: { present: new Uint8Array(), offsets, data: bytes },
          times: undefined,
          headers: undefined,
        });
      }
    }
  },

  onTimers(due, now) {},

  onWatermark(now) {},

  finish(now) {},

  migrate(state, version, names, values) {
    throw { row: undefined, message: "there is no older version" };
  },
};

function act(action, now) {
  switch (action) {
    case "print":
      console.log("to standard output");
      console.error("to standard error");
      return undefined;
    case "missing":
      return undefined.field;
    case "recurse":
      return `${depth(0) > 100}`;
    case "hoard":
      return `${new Uint8Array(2 ** 30).length}`;
    case "world":
      return JSON.stringify({
        clock: BigInt(Date.now()) === now.processingTime,
        later: performance.now() < performance.now(),
        random: Math.random() < 1,
        secret: crypto.getRandomValues(new Uint8Array(16)).length,
      });
    default:
      return action;
  }
}

function depth(level) {
  try {
    return depth(level + 1);
  } catch (error) {
    if (!(error instanceof InternalError)) {
      throw error;
    }
    return level;
  }
}
