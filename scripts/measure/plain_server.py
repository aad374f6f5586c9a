"""A minimal server for an exported model of subwords, the reference: FastAPI, SentencePiece and CTranslate2.

`measure.serving` runs it beside `tfm serve`: python plain_server.py EXPORT THREADS. It prints its address.
"""

import socket
import sys
from pathlib import Path

import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Question(BaseModel):
    """A sentence to translate; the languages are the model's."""

    q: str


def create_app(folder: Path, threads: int) -> FastAPI:
    """Returns the application. threads: number of sentences translated at a time."""
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.subwords.model"))
        for side in ("source", "target")
    )
    model = ctranslate2.Translator(str(folder), inter_threads=threads, intra_threads=1)
    app = FastAPI()

    @app.post("/translate")
    def translate(asked: Question) -> dict[str, str]:
        (result,) = model.translate_batch([source.encode(asked.q, out_type=str)], beam_size=1)
        return {"translatedText": target.decode(result.hypotheses[0])}

    return app


if __name__ == "__main__":
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # or asyncio sets no TCP_NODELAY
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(Path(sys.argv[1]), int(sys.argv[2])), log_level="error")
    bound.listen()  # or the first client may be refused
    print(f"serving at http://127.0.0.1:{bound.getsockname()[1]}", file=sys.stderr, flush=True)
    uvicorn.Server(config).run(sockets=[bound])
