"""``config.json`` of the stand-in, as transformers and vLLM read it."""

from dataclasses import fields
from typing import Any

from transformers import PretrainedConfig

from validate.model.dimensions import Dimensions


class StandInConfig(PretrainedConfig):
    """``Dimensions`` by their own names, and the names under which vLLM looks for a few of them."""

    model_type = "k3_standin"

    def __init__(self, **given: Any) -> None:
        for field in fields(Dimensions):
            if field.name in given:
                setattr(self, field.name, given.pop(field.name))
        if hasattr(self, "layers"):
            d = self.dimensions()
            self.hidden_size, self.num_hidden_layers, self.vocab_size = d.hidden, d.layers, d.vocab
            self.num_attention_heads = self.num_key_value_heads = d.heads
            self.head_dim = d.v_head
            self.layers_block_type = ["attention" if d.is_mla(n) else "linear_attention" for n in range(d.layers)]
        given.setdefault("tie_word_embeddings", False)
        given.setdefault("max_position_embeddings", 2**20)  # positions are not encoded: K3's limit
        super().__init__(**given)

    def dimensions(self) -> Dimensions:
        """The sizes as the project knows them."""
        return Dimensions(**{field.name: getattr(self, field.name) for field in fields(Dimensions)})
