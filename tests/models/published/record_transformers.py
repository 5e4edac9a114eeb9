"""What transformers' GPT-2 and LLaMA answer with small random weights: kept in transformers_answers.json.

    python tests/models/published/record_transformers.py        where transformers is installed; refnp need not be

Weights are drawn in the order of their names, so that they need not be kept. LLaMA's rotations and norms are formed in
float64; as they stand, in float32 whatever the model is, the answer is `float32 inside`.
"""

import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("transformers_answers.json")
TOKENS = [[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5, 8, 9, 7, 9, 3]]
SMALL = {"vocab_size": 11}
CONFIGURATIONS = {  # refnp's names beside theirs
    "GPT-2": {"n_positions": 16, "n_embd": 8, "n_head": 2, "n_layer": 2},
    "GPT-2, exact GELU, not tied": {
        "n_positions": 8, "n_embd": 6, "n_head": 3, "n_layer": 1, "activation_function": "gelu",
        "tie_word_embeddings": False,
    },
    "LLaMA": {"hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2, "num_hidden_layers": 2},
    "LLaMA, shared keys, tied": {
        "hidden_size": 16, "intermediate_size": 10, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 1, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
    },
}  # fmt: skip


def drawn(shapes):
    """Weights of these shapes by name, normal numbers times ½ and gains near 1, in the order of the names."""
    rng = np.random.default_rng(0)
    return {name: 0.5 * rng.standard_normal(shapes[name]) + (len(shapes[name]) == 1) for name in sorted(shapes)}


def main():
    import torch
    import transformers

    answers = {}
    for name, options in CONFIGURATIONS.items():
        torch.set_default_dtype(torch.float64)
        kind = "GPT2" if name.startswith("GPT") else "Llama"
        configuration = getattr(transformers, f"{kind}Config")(**SMALL, **options, attn_implementation="sdpa")
        model = getattr(transformers, f"{kind}{'LMHeadModel' if kind == 'GPT2' else 'ForCausalLM'}")(configuration)
        model = model.double().eval()
        shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
        tied = getattr(configuration, "tie_word_embeddings", True)
        if tied:
            shapes.pop("lm_head.weight")
        weights = drawn(shapes)
        model.load_state_dict({key: torch.tensor(value) for key, value in weights.items()}, strict=False)
        model.tie_weights()
        tokens = torch.tensor(TOKENS)
        with torch.no_grad():
            entry = {"shapes": shapes, "logits": model(tokens).logits.tolist()}
            if kind == "Llama":
                entry["float32 inside"] = entry["logits"]
                model.model.rotary_emb.forward = in_float64(configuration)
                type(model.model.norm).forward = normalised
                entry["logits"] = model(tokens).logits.tolist()
            model.generation_config.eos_token_id = None  # no token ends the sequence
            given = {"attention_mask": torch.ones(2, 4, dtype=int), "pad_token_id": 0}
            entry["continued"] = model.generate(tokens[:, :4], max_new_tokens=4, do_sample=False, **given).tolist()
        answers[name] = entry
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    FILE.write_text(json.dumps(versions | {"answers": answers}) + "\n")


def normalised(self, x):
    """RMSNorm in the precision of x."""
    return self.weight * x / (x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).sqrt()


def in_float64(configuration):
    """Cosines and sines of the places, in float64."""
    import torch

    width = configuration.hidden_size // configuration.num_attention_heads

    def rotations(x, position_ids):
        frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = position_ids[..., None].double() * frequencies
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()

    return rotations


if __name__ == "__main__":
    main()
