// Makes a page from a made-up trace: node make.mjs TEMPLATE OUTPUT [EVENTS] [TRACES]
import { readFileSync, writeFileSync } from "node:fs";
import { fill, makePage, makeTrace } from "./synthetic.mjs";

const [template, output, events = "4000", traces = "1"] = process.argv.slice(2);
const list = Array.from({ length: Number(traces) }, (_, i) => makeTrace({ events: Number(events), seed: i + 1, name: `rank ${i}`, leak: true, layers: Number(events) > 1e6 ? 48 : 12 }));
const page = makePage(list, { title: "" });
writeFileSync(output, fill(readFileSync(template, "utf8"), page));
