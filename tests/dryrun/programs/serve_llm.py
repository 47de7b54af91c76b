"""An LLM of vLLM, which answers a few requests of made-up tokens: serve_llm.py MODEL [--graphs] [--tp N] [NAME=VALUE...]"""
import argparse
import json


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("more", nargs="*")
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--tp", type=int, default=1)
    arguments = parser.parse_args()
    from vllm import LLM, SamplingParams

    more = {name: json.loads(value) for name, _, value in (word.partition("=") for word in arguments.more)}
    llm = LLM(model=arguments.model, load_format="dummy", enforce_eager=not arguments.graphs, tensor_parallel_size=arguments.tp, **more)
    for turn in range(3):
        prompts = [{"prompt_token_ids": [5 + (i + turn + number) % 200 for i in range(64)]} for number in range(4)]
        llm.generate(prompts, SamplingParams(temperature=0, max_tokens=16, ignore_eos=True), use_tqdm=False)
    print("SERVED", flush=True)


if __name__ == "__main__":
    main()
