"""Cases of RecoverSSM: a verify step of several requests on the inputs of ``kda``, then the commit of the accepted tokens."""

import torch

from validate.model.call import Call
from validate.model.draws import Draws
from validate.numerics import kda
from validate.numerics.case import Case
from validate.profiles import Profile

ALONE = ("trained", "recycled", "saturated", "faint")
TOGETHER = ("padded", "ragged", "aligned", "mixed")
BLOCK = 16  # tokens of a block of the prefix cache: at least q (recoverssm.py, ``commit``), and small, so that ends are met


def cases(profile: Profile) -> list[Case]:
    """One, two and four requests of each window, with a state in fp32 and in bf16, in turn with each kind of input.

    ``state``: its bits. bf16 is what the CuTe kernels of SM100 take, in either layout of the convolution's state, channels
    first or last; the Triton kernels take both states.
    """
    found = []
    for seed in range(profile.seeds):
        for tp in (tp for tp in profile.tp if tp > 1):
            for n, q in enumerate(profile.queries):
                for m, requests in enumerate((1, 2, 4)):
                    if requests * q > (32 if tp == 16 else 16):
                        continue
                    for state in (32, 16):
                        kinds = ALONE if requests == 1 else TOGETHER
                        turn = n + m + (2 if state == 16 else 0) + (1 if tp == 8 else 0)
                        first = (n + m + tp // 8) % 2 if state == 16 else 0
                        sizes = {"tp": tp, "batch": requests * q, "q": q, "state": state, "channels_first": first}
                        found.append(Case("recover_ssm", sizes, kinds[turn % 4], seed))
    return found


def build(case: Case) -> Call:
    """Inputs as ``reference.recover_ssm`` names them; numbers, weights and slots of a case of ``kda`` of equal sizes.

    ``trained``, ``recycled``, ``saturated``, ``faint`` and ``padded`` are those of ``kda``. ``ragged``: requests with fewer
    drafts than the window has room for. ``aligned``: with prefix caching, most windows pass the end of a block. ``mixed``:
    the step has other requests before and between those that verify drafts.
    """
    draws = Draws("recover_ssm", case.id)
    q, rows = case.sizes["q"], case.sizes["batch"]
    count = rows // q
    inputs = case.inputs if case.inputs in kda.INPUTS else "trained"
    sizes = {"tp": case.sizes["tp"], "batch": rows, "q": q, "regime": rows}
    base = kda.build(Case("kda", sizes, inputs, case.seed))
    i = dict(base.inputs)
    accepted, table = i["accepted"], i.pop("slots")
    i |= {"slots": table[:, 0].contiguous(), "indices": None, "table": None, "computed": None, "block": None}
    lengths = torch.full((count,), q)
    if case.inputs == "ragged":
        lengths = draws.integers((count,), 1, q + 1)
        lengths[-2:] = torch.tensor([q - 1, q])
        accepted = torch.minimum(accepted, lengths.int())
        own = torch.cat([b * q + torch.arange(int(n)) for b, n in enumerate(lengths)])
        i |= {name: i[name][own] for name in ("x", "gate", "f_a", "beta")}
    if case.inputs == "aligned":
        accepted[0] = q
        left = draws.integers((count,), 0, q + 1)  # tokens to the end of the block
        left[0] = 1
        computed = BLOCK - left
        source = (computed + q - 1) // BLOCK  # the block of the window's last token (v1/attention/backends/utils.py)
        i |= {"table": table[:, :2].contiguous(), "computed": computed.int(), "block": BLOCK}
        i["slots"] = table.gather(1, source[:, None])[:, 0].contiguous()
    if case.inputs == "mixed":
        indices = 2 * torch.arange(count) + 1
        among = 1 + (accepted.long()[:, None] + torch.arange(2)) % q  # of each pair the first is another request's
        among[:, 1] = accepted
        accepted, i["indices"] = among.flatten().int(), indices.int()
    starts = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]).int()
    i |= {"accepted": accepted, "starts": starts}
    state = base.buffers["state"]
    buffers = {**base.buffers, "state": state if case.sizes["state"] == 32 else state.bfloat16()}
    shape, dtype = base.empty["out"]
    return Call("recover_ssm", case.sizes, i, {"out": ((int(starts[-1]), shape[1]), dtype)}, buffers)
