"""Transformers and GPUs as data, and what follows from a model's dimensions: parameters and operations of a token."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints

from gpusched_env.errors import TraceError, WorkloadError, unknown_name

FOLDER: Final = resources.files("gpusched_env.traces.profile_tables.llm")
BACKWARD: Final = 6  # operations of a weight and token: forward 2, gradient of its input 2, of the weight 2
FROZEN: Final = 4  # ... of a weight that LoRA does not train
KINDS: Final = ("pretrain", "sft", "lora")
PRECISIONS: Final = {"BF16": "bf16_tflops", "FP8": "fp8_tflops", "MXFP8": "fp8_tflops", "NVFP4": "fp4_tflops"}


class Model(NamedTuple):
    """A transformer: a row of ``models.csv``, whose columns have these names. A 0 says that it has no such part."""

    model: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int  # of queries and keys; with latent attention, its part without position
    vocab: int
    ffn: int = 0  # of a dense layer
    alias: str = ""
    gated: int = 1  # 1 = SwiGLU, three matrices; 0 = two
    tied: int = 0  # 1 = the embedding is the head
    experts: int = 0
    top_k: int = 0
    moe_ffn: int = 0
    shared_ffn: int = 0
    dense_layers: int = 0  # of a mixture of experts
    q_rank: int = 0  # latent attention: ranks of queries, and of keys and values
    kv_rank: int = 0
    rope_dim: int = 0
    value_dim: int = 0
    window: int = 0  # [token] of the layers with sliding attention
    window_layers: int = 0
    mtp: int = 0  # layers, with a head each, that predict further tokens
    seq: int = 4096  # [token] unless a job says otherwise
    source: str = ""

    @property
    def moe_layers(self) -> int:
        """Layers with experts."""
        return self.layers + self.mtp - self.dense_layers if self.experts else 0

    @property
    def matrices(self) -> int:
        """Matrices of a feed-forward network."""
        return 3 if self.gated else 2

    @property
    def attention(self) -> int:
        """Parameters of the attention of a layer."""
        if not self.kv_rank:
            return self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        rope, value, nope = self.rope_dim, self.value_dim, self.head_dim
        queries = self.hidden * self.q_rank + self.q_rank * self.heads * (nope + rope)
        keys = self.hidden * (self.kv_rank + rope) + self.kv_rank * self.heads * (nope + value)
        return queries + keys + self.heads * value * self.hidden

    @property
    def layer_experts(self) -> int:
        """Parameters of the experts of a layer, without shared ones."""
        return self.experts * self.matrices * self.hidden * self.moe_ffn

    @property
    def expert_parameters(self) -> int:
        """Parameters of all experts, without shared ones."""
        return self.moe_layers * self.layer_experts

    def shared_parameters(self, plain: float, moe: float) -> float:
        """Parameters of ``plain`` layers without experts and ``moe`` layers with experts, without these experts."""
        beside = self.hidden * (self.matrices * self.shared_ffn + self.experts)
        return (plain + moe) * self.attention + plain * self.matrices * self.hidden * self.ffn + moe * beside

    @property
    def layer_parameters(self) -> float:
        """Parameters of all layers, without experts: what tensor parallelism divides."""
        joined = self.mtp * 2 * self.hidden * self.hidden  # a further token's layer first joins two vectors
        return self.shared_parameters(self.layers + self.mtp - self.moe_layers, self.moe_layers) + joined

    @property
    def parameters(self) -> float:
        """All parameters."""
        ends = self.hidden * self.vocab * (1 if self.tied else 2)
        return self.layer_parameters + self.expert_parameters + ends

    @property
    def active_parameters(self) -> float:
        """Parameters that take part in a token."""
        return self.parameters - self.expert_parameters * (1 - self.top_k / max(self.experts, 1))


class Operations(NamedTuple):
    """Operations of a token, forward and backward, without recomputation [FLOP]."""

    layers: float  # matrices without experts
    experts: float
    scores: float  # of causal attention
    head: float


def operations(model: Model, seq: int, kind: str = "pretrain") -> Operations:
    """Operations of a token in sequences of ``seq`` tokens; LoRA computes no gradients of the frozen weights."""
    factor = FROZEN if kind == "lora" else BACKWARD
    widths = (model.head_dim + model.rope_dim + model.value_dim) if model.kv_rank else 2 * model.head_dim
    slid = min(seq / 2, model.window)
    seen = (model.layers + model.mtp - model.window_layers) * seq / 2 + model.window_layers * slid
    head = model.hidden * model.vocab * (1 + model.mtp)
    experts = model.expert_parameters * model.top_k / max(model.experts, 1)
    layers, scores = factor * model.layer_parameters, BACKWARD * model.heads * widths * seen
    return Operations(layers, factor * experts, scores, factor * head)


class Gpu(NamedTuple):
    """A GPU type and its server: a row of ``gpus.csv``. Rates are of one direction and those that collectives reach."""

    gpu: str
    bf16_tflops: float  # dense
    fp8_tflops: float  # 0 = it has no such units
    fp4_tflops: float
    hbm_GB: float
    hbm_TBps: float
    nvlink_GBps: float
    nic_GBps: float  # of each GPU
    domain: int  # [GPU] that NVLink joins
    fitted_as: str  # GPU type whose fitted efficiency it has
    source: str = ""

    def peak(self, precision: str) -> float:
        """Return the peak rate [FLOP/s]; WorkloadError: the GPU has no units of this precision."""
        if precision not in PRECISIONS:
            raise WorkloadError(unknown_name("precision", precision, PRECISIONS))
        # MXFP8 came with the units of FP4
        able = [n for n, column in PRECISIONS.items() if getattr(self, column) and (n != "MXFP8" or self.fp4_tflops)]
        if precision not in able:
            raise WorkloadError(f"{self.gpu} has no {precision} units: use {' or '.join(able)}")
        return float(getattr(self, PRECISIONS[precision])) * 1e12


@cache
def shipped(kind: Any, file: str) -> tuple[Any, ...]:
    """Return the rows of a CSV in this folder as named tuples."""
    return read_rows(kind, (FOLDER / file).read_text(encoding="utf-8"), file)


def known_models(path: str | Path | None = None) -> Mapping[str, Model]:
    """Return the shipped models and those of a user's CSV with the columns of :class:`Model`, which replace them."""
    own: tuple[Model, ...] = ()
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise TraceError(f"{path}: cannot be read ({error})") from error
        own = read_rows(Model, text, str(path))
        if not own:
            raise TraceError(f"{path}: no model; give a line of columns ({', '.join(Model._fields)}), and one a model")
    return {model.model: model for model in (*shipped(Model, "models.csv"), *own)}


def find_model(name: str, known: Mapping[str, Model] | None = None) -> Model:
    """Return a model by its name or alias; WorkloadError: there is none."""
    known = known or known_models()
    named = {model.alias: model for model in known.values() if model.alias} | dict(known)
    if name not in named:
        raise WorkloadError(unknown_name("model", name, known, "gpusched models list"))
    return named[name]


def find_gpu(name: str) -> Gpu:
    """Return a GPU type by its name; WorkloadError: there is none."""
    known = {gpu.gpu: gpu for gpu in shipped(Gpu, "gpus.csv")}
    if name not in known:
        raise WorkloadError(unknown_name("GPU type", name, known))
    return known[name]


def read_rows(kind: Any, text: str, where: str) -> tuple[Any, ...]:
    """Make named tuples of the rows of a CSV; TraceError: a field is wrong."""
    rows = enumerate(csv.DictReader(text.splitlines()), 2)
    return tuple(_row(row, kind, f"{where}, line {line}") for line, row in rows)


def _row(row: Mapping[str, Any], kind: Any, where: str) -> Any:
    """Make a named tuple of texts; an empty field has the default."""
    values: dict[str, Any] = {}
    strange = [str(name) for name in row if name not in kind._fields]
    if strange:
        raise TraceError(f"{where}: {unknown_name('column', strange[0], kind._fields)}")
    for name, of_type in get_type_hints(kind).items():
        text = (row.get(name) or "").strip()
        if not text and name in kind._field_defaults:
            continue
        try:
            values[name] = of_type(text)
        except ValueError as error:
            what = "a whole number" if of_type is int else "a number"
            raise TraceError(f"{where}, column {name}: {text!r} is not {what}") from error
        least = int(of_type is int and name not in kind._field_defaults)
        if of_type is not str and not least <= values[name] < math.inf:
            raise TraceError(f"{where}, column {name}: {text} must be at least {least} and finite")
    return kind(**values)
