"""Faults planted in RecoverSSM, which only the default path has."""

from functools import partial

import torch
from torch import Tensor

from validate.faults import fault
from validate.model.call import Call
from validate.paths.emulated.recover_ssm import DefaultRecoverSsm, Kept, Records

BF16 = torch.bfloat16
planted = partial(fault, path="default")


@planted("recover_ssm.drafts-without-bonus", "folds the accepted drafts, and not the token that was sampled behind them")
class DraftsWithoutBonus(DefaultRecoverSsm):  # noqa: D101 - each fault is described by its decorator
    def taken(self, accepted: int, length: int) -> int:
        return max(1, accepted - 1)


@planted("recover_ssm.rejected-token-folded", "folds one token more than was accepted")
class RejectedTokenFolded(DefaultRecoverSsm):  # noqa: D101
    def taken(self, accepted: int, length: int) -> int:
        return min(accepted + 1, length)


@planted("recover_ssm.accepted-of-row", "counts of the step's first requests, though others stand between those that verify")
class AcceptedOfRow(DefaultRecoverSsm):  # noqa: D101
    def request(self, call: Call, b: int) -> int:
        return b


@planted("recover_ssm.records-of-request", "records sought by the request's place in the step, not among those that verify")
class RecordsOfRequest(DefaultRecoverSsm):  # noqa: D101
    def row(self, call: Call, b: int) -> int:
        return super().request(call, b) % len(call.inputs["slots"])


@planted("recover_ssm.records-of-neighbour", "records of the neighbouring request: row stride lost", subtle=True)
class RecordsOfNeighbour(DefaultRecoverSsm):  # noqa: D101
    def row(self, call: Call, b: int) -> int:
        count = len(call.inputs["slots"])
        return max(0, b - 1) if b == count - 1 else b


@planted("recover_ssm.decay-twice", "a token's update decays by its own step, too")
class DecayTwice(DefaultRecoverSsm):  # noqa: D101
    def folded(self, passed: Tensor, added: Tensor, update: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        return passed * decay, update * (passed * decay) + added


@planted("recover_ssm.updates-not-decayed", "the tokens after it do not decay a token's update")
class UpdatesNotDecayed(DefaultRecoverSsm):  # noqa: D101
    def folded(self, passed: Tensor, added: Tensor, update: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        return passed * decay, update + added


@planted("recover_ssm.correction-rounded", "the correction kept in bf16, as the key and the gate are", subtle=True)
class CorrectionRounded(DefaultRecoverSsm):  # noqa: D101
    def recorded(self, correction: Tensor) -> Tensor:
        return correction.to(BF16).float()


@planted("recover_ssm.key-recorded-after-norm", "the normalised key kept in bf16, where it is no longer exact", subtle=True)
class KeyRecordedAfterNorm(DefaultRecoverSsm):  # noqa: D101
    def commit(self, call: Call, records: Records) -> None:
        unit = super().unit(records.key.float(), call.inputs["l2_eps"]).to(BF16)
        super().commit(call, Records(records.correction, unit, records.gate))


@planted("recover_ssm.epsilon-missing-in-commit", "no epsilon under the recorded key's norm: shows on faint keys", subtle=True)
class EpsilonMissingInCommit(DefaultRecoverSsm):  # noqa: D101
    def fold(self, state: Tensor, records: Records, row: int, count: int, call: Call) -> Tensor:
        other = Call(call.stage, call.shape, {**call.inputs, "l2_eps": 0.0}, call.empty)
        return super().fold(state, records, row, count, other)


@planted("recover_ssm.state-through-bf16", "the committed state passes through bf16 in an fp32 cache", subtle=True)
class StateThroughBf16(DefaultRecoverSsm):  # noqa: D101
    def stored(self, state: Tensor) -> Tensor:
        return state.to(BF16).float()


@planted("recover_ssm.state-truncated", "a state in bf16 is cut off instead of rounded", subtle=True)
class StateTruncated(DefaultRecoverSsm):  # noqa: D101
    def stored(self, state: Tensor) -> Tensor:
        cut = (state.view(torch.int32) & -0x10000).view(torch.float32)
        return cut if self.narrow else state

    def commit(self, call: Call, records: Records) -> None:
        self.narrow = call.buffers["state"].dtype is BF16
        super().commit(call, records)


@planted("recover_ssm.verify-advances-state", "the verify step stores its last state, as without RecoverSSM")
class VerifyAdvancesState(DefaultRecoverSsm):  # noqa: D101
    def verified(self, state: Tensor, slot: int, after: Tensor) -> None:
        state[slot] = after


@planted("recover_ssm.taps-rolled-by-window", "taps moved on by the window, not by what was accepted")
class TapsRolledByWindow(DefaultRecoverSsm):  # noqa: D101
    def first_tap(self, call: Call, count: int) -> int:
        return call.shape["q"] - 1


@planted("recover_ssm.taps-not-rolled", "taps left as the verify step leaves them")
class TapsNotRolled(DefaultRecoverSsm):  # noqa: D101
    def first_tap(self, call: Call, count: int) -> int:
        return 0


@planted("recover_ssm.null-slot-written", "a padded request's window is folded into slot 0")
class NullSlotWritten(DefaultRecoverSsm):  # noqa: D101
    def is_live(self, slot: int) -> bool:
        return slot >= 0


@planted("recover_ssm.block-end-not-stored", "with prefix caching, the state at the end of a block is not kept")
class BlockEndNotStored(DefaultRecoverSsm):  # noqa: D101
    def plan(self, call: Call, b: int, slot: int) -> list[Kept]:
        return super().plan(call, b, slot)[-1:]


@planted("recover_ssm.block-end-of-last-token", "with prefix caching, a block's slot gets the state after the whole window")
class BlockEndOfLastToken(DefaultRecoverSsm):  # noqa: D101
    def plan(self, call: Call, b: int, slot: int) -> list[Kept]:
        plan = super().plan(call, b, slot)
        return [Kept(one.source, one.target, plan[-1].count) for one in plan]


@planted("recover_ssm.last-state-in-place", "with prefix caching, the state stays where the step found it")
class LastStateInPlace(DefaultRecoverSsm):  # noqa: D101
    def plan(self, call: Call, b: int, slot: int) -> list[Kept]:
        return [*super().plan(call, b, slot)[:-1], Kept(slot, slot, super().plan(call, b, slot)[-1].count)]


@planted("recover_ssm.gate-of-neighbour-token", "gate records one token late: the first of the window twice", subtle=True)
class GateOfNeighbourToken(DefaultRecoverSsm):  # noqa: D101
    def commit(self, call: Call, records: Records) -> None:
        gate = torch.cat([records.gate[:, :1], records.gate[:, :-1]], 1)
        super().commit(call, Records(records.correction, records.key, gate))
