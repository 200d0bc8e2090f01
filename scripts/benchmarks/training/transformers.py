"""Transformers on many GPUs, as formulas: operations and activations of a step, and what a disk beside each GPU writes.

Activations are in 16 bits, with attention that keeps no matrix of scores: of a layer and a token, 34 h bytes on one
GPU, and h (10 + 24 / t) where t GPUs share its matrices, or 34 h / t where they share the rest, too. A forward pass
multiplies and adds 24 h h + 4 s h for each of its tokens in a layer, a backward pass twice as much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

YEAR = 365 * 24 * 3600.0


@dataclass(frozen=True)
class Training:
    """A model of `layers` of width `hidden`, a step of `batch` items of `tokens`, on `gpus`, of which `tensor` share a
    layer and `pipeline` have layers one after another; each computes `rate` operations a second.
    """

    hidden: int
    layers: int
    batch: int
    tokens: int
    gpus: int
    rate: float
    tensor: int = 1
    pipeline: int = 1
    shares_all: bool = True

    @property
    def parameters(self) -> float:
        """Its weights, without embeddings."""
        return 12 * self.layers * self.hidden**2

    @property
    def activations(self) -> float:
        """The bytes that a step saves, for each GPU."""
        a_token = 34 / self.tensor if self.shares_all else 10 + 24 / self.tensor
        of_layers = self.batch * self.tokens * self.layers * self.hidden * a_token
        return of_layers * self.tensor / self.gpus

    @property
    def operations(self) -> float:
        """The operations of a step, for each GPU, without any that are repeated."""
        forward = self.batch * self.tokens * self.layers * (24 * self.hidden**2 + 4 * self.tokens * self.hidden)
        return 3 * forward / self.gpus

    @property
    def seconds(self) -> float:
        """The time of a step that computes all the time."""
        return self.operations / self.rate

    @property
    def bandwidth(self) -> float:
        """The bytes a second that are written, so that a store takes half of the step."""
        return self.activations / (self.seconds / 2)

    def years(self, endurance: float) -> float:
        """The time until disks that endure so many bytes are worn out."""
        return endurance / self.activations * self.seconds / YEAR

    def scaled(self, compute: float) -> Training:
        """The model for so many times the operations, by Chinchilla's law.

        Weights N and the tokens of a batch grow as C ** 0.5, the width as N ** (1 / 3). GPUs stay as they are: bytes
        are those of the whole system.
        """
        grown = compute**0.5
        wide = grown ** (1 / 3)
        return replace(
            self,
            hidden=round(self.hidden * wide),
            layers=round(self.layers * grown / wide**2),
            batch=round(self.batch * grown),
        )


@dataclass(frozen=True)
class Disk:
    """SSDs as their data sheets have them: terabytes, petabytes that may be written at random, and dollars for each of
    these.
    """

    name: str
    capacity: float
    endurance: float
    price: float


#: Table 5.1 of the thesis.
DISKS = (
    Disk("Kioxia FL6", 3.2, 342, 13.9),
    Disk("Solidigm D7-P5620", 12.8, 65.4, 43.8),
    Disk("Solidigm D7-P5810", 1.6, 146, 11.1),
)
#: Bytes in sequence for each one at random: what a controller writes for a byte (WAF) falls from 2.5 to 1.
SEQUENTIAL = 2.5
#: Writes for each one of the data sheet where data has to last for a day only.
SHORT_LIVED = 86

#: Table 2 of Narayanan et al. (2021): GPUs, framework, billions of weights, width, layers, batch, teraflops of a GPU.
SCENARIOS = tuple(
    (f"{gpus} {name} {weights}B", Training(hidden, layers, batch, 2048, gpus, 1e12 * rate))
    for name, weights, hidden, layers, listed in (
        ("ZeRO-3", 175, 12288, 96, ((384, 1536, 144), (768, 1536, 88), (1536, 1536, 44))),
        ("ZeRO-3", 530, 20480, 105, ((640, 2560, 138), (1120, 2240, 98), (2240, 2240, 48))),
        ("Megatron", 175, 12288, 96, ((384, 1536, 153), (768, 1536, 149), (1536, 1536, 141))),
        ("Megatron", 530, 20480, 105, ((560, 2240, 171), (1120, 2240, 167), (2240, 2240, 159))),
    )
    for gpus, batch, rate in listed
)

#: Table 5.4: the BERT models of two A100, with the gigabytes that were offloaded, its estimate, and the GB/s needed.
BERT_RATE = 140e12
BERT = tuple(
    (f"H{hidden} L{layers}", Training(hidden, layers, 16, 1024, 2, BERT_RATE, tensor=2, shares_all=False), said)
    for hidden, layers, said in (
        (8192, 4, (10.37, 11.13, 18.0)),
        (12288, 3, (12.85, 12.60, 13.8)),
        (16384, 2, (10.75, 11.50, 8.76)),
    )
)


def upscaled(one: Training, gpus: int, shares_all: bool = True) -> Training:
    """A model of table 5.4 on more GPUs: up to eight share its layers, then a pipeline has more layers."""
    tensor = min(gpus, 8)
    depth = gpus // tensor
    return replace(one, gpus=gpus, tensor=tensor, pipeline=depth, layers=one.layers * depth, shares_all=shares_all)


#: Table 5.6: what larger batches gain over a batch of one, and by what: faster kernels, and fewer updates of weights.
BATCHES = {2: (27.6, 10.5, 17.1), 4: (52.2, 21.8, 30.4), 8: (66.1, 27.7, 38.4), 16: (71.8, 29.4, 42.4)}


def gains(batch: int, update: float, slower: float) -> tuple[float, float, float]:
    """The gain of a batch over a batch of one, in percent, by faster kernels and by fewer updates.

    Of the time of a batch of one, `update` is that of the weights, and `slower` what its kernels lose beside endless
    batches: they lose ``slower / batch`` of it.
    """
    saved, faster = update * (1 - 1 / batch), slower * (1 - 1 / batch)
    left = 1 - saved - faster
    return 100 * (1 / left - 1), 100 * faster / left, 100 * saved / left


def fitted() -> tuple[float, float]:
    """The two shares of table 5.6, by least squares over its cells."""
    updates, slowers, weights = list[float](), list[float](), list[float]()
    for batch, (gain, faster, saved) in BATCHES.items():
        left, part = 1 / (1 + gain / 100), 1 - 1 / batch
        updates.append(saved / 100 * left * part)
        slowers.append(faster / 100 * left * part)
        weights.append(part * part)
    return sum(updates) / sum(weights), sum(slowers) / sum(weights)
