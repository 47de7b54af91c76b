"""sentence-transformers, with a BERT made here: encodes texts, or is a server of OpenAI's interface: serve_embeddings.py FOLDER [--server]

Prints what it has by its own objects."""
import argparse
import json
import pathlib

from sentence_transformers import SentenceTransformer
from transformers import BertConfig, BertModel, BertTokenizerFast

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--server", action="store_true")
arguments = parser.parse_args()
passes, answered = [], []


def make_model(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", *(f"w{i}" for i in range(30516))]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words))
    BertModel(BertConfig(vocab_size=len(words), hidden_size=384, num_hidden_layers=12, num_attention_heads=12,
                         intermediate_size=1536)).save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)


def serve():
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Question(BaseModel):
        input: str

    application = FastAPI()

    @application.get("/v1/models")
    def models():
        return {"data": [{"id": "bert", "max_model_len": 512}]}

    @application.post("/v1/embeddings")
    def embeddings(question: Question):
        answered.append(1)
        return {"data": [{"embedding": model.encode(question.input).tolist()}]}

    uvicorn.run(application, host="127.0.0.1", port=8741, log_level="warning")


make_model(arguments.folder)
model = SentenceTransformer(str(arguments.folder), device="cuda")
model.register_forward_hook(lambda *_: passes.append(1))
if arguments.server:
    serve()
else:
    for _ in range(5):
        model.encode(["a " * (20 + 10 * i) for i in range(100)], batch_size=32, show_progress_bar=False)
print(json.dumps({"weights": sum(each.nbytes for each in model.parameters()), "passes": len(passes), "answered": len(answered)}))
