// Decoding, and what is said of damaged data.
import assert from "node:assert/strict";
import test from "node:test";

import { columnsOf, DataError, fromBase64, rowsOf, run } from "../../analyzer/view/html/page/src/data.js";
import { Reader } from "../../analyzer/view/html/page/src/reader.js";
import * as encode from "./encode.mjs";
import { makePage, makeTrace, random } from "./synthetic.mjs";

const quiet = async () => {};
const decode = (raw, rows, encodings) => run(columnsOf(raw, { rows, columns: encodings }, "x"), quiet);

test("numbers and differences come back", async () => {
    const values = [0, 1, 127, 128, 16383, 16384, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1];
    const signed = [5, 3, 3, 1000000, -7, 0, 2 ** 40, 1, -(2 ** 40)];
    const raw = Buffer.concat([encode.numbers(values), encode.deltas(signed)]);
    const table = await decode(raw, values.length, { a: "numbers", b: "deltas" });
    assert.deepEqual([[...table.a], [...table.b]], [values, signed]);
});

test("columns longer than what is read at once come back", async () => {
    const values = Array.from({ length: 600000 }, (_, i) => (i * 7919) % 1000003);
    const raw = Buffer.concat([encode.deltas(values), encode.numbers(values)]);
    const table = await decode(raw, values.length, { class: "deltas", bytes: "numbers" });
    assert.deepEqual([Array.from(table.class), Array.from(table.bytes)], [values, values]);
});

test("rows have their texts", async () => {
    const table = await decode(encode.numbers([1, 0, 9, 4, 5, 6]), 3, { name: "texts", size: "numbers" });
    assert.deepEqual(rowsOf(table, { columns: { name: "texts", size: "numbers" } }, ["", "a"]),
        [{ name: "a", size: 4 }, { name: "", size: 5 }, { name: "", size: 6 }]);
});

test("a column that is too short or too long is damaged", async () => {
    for (const [raw, count] of [[[1, 2], 3], [[1, 0x80], 2], [[1, 2, 3], 2], [[], 1]])
        for (const encoding of ["numbers", "deltas"])
            await assert.rejects(() => decode(Uint8Array.from(raw), count, { a: encoding }), DataError);
});

test("text that is not base64 is damaged", () => {
    assert.throws(() => fromBase64("%%%"), DataError);
});

test("any flipped byte is told or leaves a trace that can be read, never hangs", async () => {
    const page = makePage([makeTrace({ events: 600 })]);
    const good = Buffer.from(page.base64, "base64");
    const rand = random(5);
    let told = 0;
    for (let i = 0; i < 60; i++) {
        const bad = Buffer.from(good);
        bad[Math.floor(rand() * bad.length)] ^= 1 << Math.floor(rand() * 8);
        try {
            await new Reader(page.head, bad.toString("base64")).trace(0, quiet);
        } catch (error) {
            told++;
            assert.ok(error instanceof DataError || error instanceof SyntaxError || error instanceof TypeError, String(error.stack));
        }
    }
    assert.ok(told > 20, `${told} of 60 were told`);
});

test("data that ends too early is told", async () => {
    const page = makePage([makeTrace({ events: 600 })]);
    const cut = Buffer.from(page.base64, "base64").subarray(0, 2000).toString("base64");
    await assert.rejects(() => new Reader(page.head, cut).trace(0, quiet), DataError);
});
