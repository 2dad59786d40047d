// componentize.mjs SOURCE WIT OUTPUT: makes a component of an operator in JavaScript.

import { writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [source, wit, output] = process.argv.slice(2);

// Without these two the engine would import wasi:http, of which operators get nothing. The rest of WASI is there, as
// stubs: console.log ends up in the job's log.
const { component } = await componentize({
  sourcePath: source,
  witPath: wit,
  worldName: "operator",
  disableFeatures: ["http", "fetch-event"],
});
await writeFile(output, component);
