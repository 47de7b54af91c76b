"""Runs cells in a Jupyter kernel: notebook.py KERNEL {name: code}; prints {name: {"text": …, "html": …}} as JSON."""
import json
import sys

from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name=sys.argv[1], startup_timeout=120)
answers = {}
try:
    for name, code in json.loads(sys.argv[2]).items():
        answer = answers[name] = {"text": "", "html": ""}

        def take(message, answer=answer):
            content = message["content"]
            if message["msg_type"] == "stream":
                answer["text"] += content["text"]
            elif message["msg_type"] in ("display_data", "execute_result"):
                answer["html"] += content["data"].get("text/html", "")
            elif message["msg_type"] == "error":
                answer["text"] += "\n".join(content["traceback"])
        client.execute_interactive(code, output_hook=take, timeout=120)
finally:
    client.stop_channels()
    manager.shutdown_kernel(now=True)
json.dump(answers, sys.stdout)
