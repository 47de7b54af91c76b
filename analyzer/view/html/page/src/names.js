// Names of a trace: who made each class of allocations, with every reference followed.

import { rowsOf } from "./data.js";
import { made } from "./made.js";

export class Names {
    // `tables`: those that classes refer to; `sources`: { file: { line: text } }
    constructor(trace, tables, strings, sources) {
        const rows = (name) => rowsOf(tables[name], trace.blobs[name], strings);
        const frames = new Map(rows("frames").map((frame) => [frame.frame, frame]));
        const { stack, frame } = tables.stacks;
        this.sources = sources;
        this.stacks = new Map();
        for (let i = 0; i < stack.length; i++)
            made(this.stacks, stack[i], () => []).push(frames.get(frame[i]));
        this.savings = tables.savings; // of advice
        this.tensors = rows("tensors");
        this.classes = rows("classes").map((row) => this.classOf(row));
    }

    classOf(row) {
        const { place_name, place_file, place_line, place_function } = row;
        return {
            ...row, stack: this.stacks.get(row.stack) ?? [], forward: this.stacks.get(row.forward_stack) ?? [],
            place: place_name ? { name: place_name, file: place_file, line: place_line, function: place_function } : null,
            counted: Boolean(row.counted), driver: Boolean(row.driver), tensors: this.tensorsOf(row.tensors),
        };
    }

    // A list's number is that of its first tensor, from 1 on; each tensor has the number of the next.
    tensorsOf(list) {
        const found = [];
        for (let tensor = this.tensors[list - 1]; tensor && found.length < this.tensors.length; tensor = this.tensors[tensor.next - 1])
            found.push(tensor);
        return found;
    }
}
