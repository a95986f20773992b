"""The PTX reader on small programs: each thing that it is to see, and the same program without it."""

from validate.kernels.ptx import fingerprint, parse

HEAD = """
.version 9.4
.target sm_103a
.visible .entry kernel_name(
    .param .align 8 .b8 kernel_name_param_0[8],
    .param .align 8 .b8 kernel_name_param_1[24]
)
.reqntid 128, 1, 1
{
    .reg .b64 %rd<9>;
    ld.param.b64 %rd1, [kernel_name_param_0];
    ld.param.b64 %rd2, [kernel_name_param_1];
    cvt.s64.s32 %rd3, %r1;
    add.s64 %rd4, %rd2, %rd3;
"""


def read(body: str) -> dict[str, object]:
    return fingerprint(HEAD + body + "\n}\n")


def test_a_read_before_the_wait_is_named_by_its_parameter() -> None:
    before = read("ld.global.b32 %r2, [%rd4]; griddepcontrol.wait; ld.global.b32 %r3, [%rd1]; ret;")
    assert before["reads before the wait"] == "p1"
    after = read("griddepcontrol.wait; ld.global.b32 %r2, [%rd4]; ld.global.b32 %r3, [%rd1]; ret;")
    assert after["reads before the wait"] == "none"


def test_a_path_around_the_wait_is_found() -> None:
    around = read("setp.ne.b32 %p1, %r1, 0; @%p1 bra $L__BB0_2; griddepcontrol.wait; $L__BB0_2: ret;")
    assert around["exit without a wait"] == "on some path"
    through = read("@%p1 bra $L__BB0_2; $L__BB0_2: griddepcontrol.wait; ret;")
    assert through["exit without a wait"] == "no"


def test_a_guarded_wait_does_not_hold_everybody() -> None:
    assert read("@%p1 griddepcontrol.wait; ret;")["exit without a wait"] == "on some path"


def test_a_kernel_that_never_waits_says_so() -> None:
    assert read("ret;")["grid dependency"] == "none"
    assert read("griddepcontrol.launch_dependents; ret;")["grid dependency"] == "released, never waited for"
    assert read("griddepcontrol.wait; ret;")["grid dependency"] == "waited for"


def test_a_release_before_the_wait_and_what_is_written_after_it() -> None:
    early = read("griddepcontrol.launch_dependents; griddepcontrol.wait; st.global.b32 [%rd4], %r1; ret;")
    assert (early["release before the wait"], early["writes after a release"]) == ("on some path", "p1")
    late = read("griddepcontrol.wait; st.global.b32 [%rd4], %r1; griddepcontrol.launch_dependents; ret;")
    assert (late["release before the wait"], late["writes after a release"]) == ("no", "none")


def test_an_address_that_was_read_from_memory_is_told_apart() -> None:
    peers = read("ld.global.b64 %rd5, [%rd4]; st.relaxed.sys.global.u32 [%rd5], %r1; griddepcontrol.wait; ret;")
    assert peers["writes before the wait"] == "*p1"


def test_the_sentinels_stores_are_told_from_others() -> None:
    constant = "mov.b32 %r9, -2147483648;"
    store = "st.relaxed.sys.global.v4.u32 [%rd4], {%r9, %r9, %r9, %r9};"
    armed = read(f"{constant} {store} ret;")
    assert armed["st.relaxed.sys.global.v4.u32 of 0x80000000"] == 1
    other = read(f"{constant} {store.replace('%r9}', '%r8}')} ret;")
    assert "st.relaxed.sys.global.v4.u32 of 0x80000000" not in other
    assert armed["st.relaxed.sys.global.v4.u32"] == other["st.relaxed.sys.global.v4.u32"] == 1


def test_a_register_that_is_loaded_later_is_no_constant() -> None:
    body = "mov.b32 %r9, -2147483648; ld.volatile.global.v2.u32 {%r9, %r8}, [%rd1]; st.global.b32 [%rd4], %r9; ret;"
    assert "st.global.b32 of 0x80000000" not in read(body)


def test_scopes_orders_and_bytes_are_part_of_what_is_counted() -> None:
    body = "fence.acq_rel.gpu; ld.volatile.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd4]; mov.b32 %r7, 512;"
    found = read(body + "mbarrier.arrive.expect_tx.shared.b64 %rd7, [%r6], %r7; ret;")
    assert found["fence.acq_rel.gpu"] == found["ld.volatile.global.v4.u32"] == 1
    assert found["mbarrier.arrive.expect_tx.shared.b64 of 512"] == 1


def test_the_accumulator_of_a_tensor_memory_product_is_read_from_its_descriptor() -> None:
    product = "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd5, %rd6, %r9, %p1; ret;"
    assert read(f"mov.b32 %r9, 67372176; {product}")["tcgen05.mma.cta_group::1.kind::f16 accumulating f32"] == 1
    assert read(f"mov.b32 %r9, 67372160; {product}")["tcgen05.mma.cta_group::1.kind::f16 accumulating f16"] == 1
    assert read(product)["tcgen05.mma.cta_group::1.kind::f16 accumulating unknown"] == 1


def test_labels_of_inline_assembly_belong_to_their_block() -> None:
    poll = "{ .reg .pred P1; AGAIN: mbarrier.try_wait.parity.shared.b64 P1, [%r1], %r2; @P1 bra.uni DONE; bra.uni AGAIN; DONE: }"
    kernel = parse(f"{HEAD}{poll} {poll} ret;\n}}\n")
    ends = [n for n in kernel.reachable() if kernel.statements[n].operation == "ret"]
    assert len(kernel.labels) == 4
    assert ends == [len(kernel.statements) - 1]
    first = next(n for n, s in enumerate(kernel.statements) if s.operation == "bra.uni" and s.operands == "DONE")
    second = next(n for n, s in enumerate(kernel.statements) if n > first and s.operation == "bra.uni" and s.operands == "DONE")
    assert first in kernel.reachable()
    assert second in kernel.reachable()


def test_another_order_of_the_same_instructions_is_seen() -> None:
    one = read("fence.acq_rel.gpu; red.release.gpu.global.add.u32 [%rd4], 1; ret;")
    other = read("red.release.gpu.global.add.u32 [%rd4], 1; fence.acq_rel.gpu; ret;")
    assert {name for name in one if one[name] != other[name]} == {"order of synchronization"}


def test_the_second_kernel_of_a_module_is_read_too() -> None:
    one = HEAD + "griddepcontrol.wait;\nst.global.b32 [%rd1], %r1;\nret;\n}\n"
    other = one[one.index(".visible") :].replace("griddepcontrol.wait;\n", "")
    alone, both = fingerprint(one), fingerprint(one + other)
    assert {key: both[key] for key in alone} == alone
    rest = {key.removesuffix(", kernel 2"): value for key, value in both.items() if key not in alone}
    assert rest == fingerprint(other)
    assert "griddepcontrol.wait" not in rest
