"""MIG: a slice is a device of its own, with a limit, figures and processes of its own."""
import pytest

from conftest import CONTEXT, MIB

# What the software GPU makes of these names.
CARD = "GPU-00000001-1111-2222-3333-444444444444"
SLICES = [f"MIG-a000000{i}-1111-2222-3333-444444444444" for i in (2, 3)]
WHOLE = "GPU-00000009-1111-2222-3333-444444444444"
SLICE_MIB = 1024
ANY = 0xffffffff


@pytest.fixture(name="card")
def make_card(place):
    """A card of two slices, and one that is whole."""
    place.sim.update(count=2, mem="2g", reserved="0", mig="2/0", uuid=f"{CARD}/{WHOLE}")
    return place


def look(place, **kwargs):
    """{kind: {UUID: [numbers of each line]}} of what `slices look` says."""
    found = {}
    for line in place.run("slices", "look", **kwargs).lines:
        kind, uuid, *numbers = line.split()
        found.setdefault(kind, {}).setdefault(uuid, []).append([int(n) for n in numbers])
    return found


def hold(place, mib, **settings):
    program = place.start("slices", "hold", mib, **settings).await_word("held")
    return program, program.said[0], {n: int(v) for n, v in map(str.split, program.said[1:3])}


def plain(*values):
    """Other names of what the sanitizers have seen."""
    return pytest.param(*values, marks=pytest.mark.plain)


@pytest.mark.parametrize("visible,used", [
    (None, 0), (SLICES[1], 1), plain("0", 0), plain("1,0", 0), plain(CARD, 0), plain(SLICES[0], 0),
    plain("MIG-a0000003", 1), plain(f"{SLICES[1]},{SLICES[0]}", 1),
    plain(SLICES[1].upper().replace("MIG", "mig"), 1),
])
def test_one_story(card, visible, used):
    """Whichever way the slice is named; the limit is named by its UUID, and the other has another."""
    limits = [300, 500]
    spec = ",".join(f"{uuid}:{limit}m" for uuid, limit in zip(SLICES, limits))
    program, uuid, memory = hold(card, 100, RATION_MEM=spec, CUDA_VISIBLE_DEVICES=visible)
    free = limits[used] * MIB - CONTEXT - 100 * MIB
    assert uuid == SLICES[used] and memory == {"total": limits[used] * MIB, "free": free}
    found = look(card, RATION_MEM=spec)
    row = [[program.pid, CONTEXT + 100 * MIB, used + 1, 0]]
    assert found["row"] == {SLICES[used]: row}
    assert found["slice"][SLICES[used]] == [[limits[used] * MIB, CONTEXT + 100 * MIB, free]]
    assert found["slice"][SLICES[1 - used]] == [[limits[1 - used] * MIB, 0, limits[1 - used] * MIB]]
    assert found["sizes"] == {uuid: [[limit, limit]] for uuid, limit in zip(SLICES, limits)}
    program.go().end()


def test_indices_count_slices(card):
    """As NVML shows them: slices stand where their card would."""
    program, uuid, memory = hold(card, 10, RATION_MEM="0:256m,1:512m,2:128m", CUDA_VISIBLE_DEVICES=SLICES[1])
    assert uuid == SLICES[1] and memory["total"] == 512 * MIB
    program.go().end()
    program = card.start("quota", "hold", 10, RATION_MEM="0:256m,1:512m,2:128m", CUDA_VISIBLE_DEVICES="1")
    program.await_word("held")
    assert card.charged(2) == CONTEXT + 10 * MIB and look(card)["card"][WHOLE][0][0] == 128 * MIB
    program.go().end()


def test_tenants_on_slices_of_one_card(card):
    """Each sees its own alone, with the limit of its own."""
    tenants = []
    for i, uuid in enumerate(SLICES):
        settings = {"RATION_REGION": card.folder / f"region{i}", "RATION_MEM": f"{256 * (i + 1)}m",
                    "CUDA_VISIBLE_DEVICES": uuid}
        program, found, memory = hold(card, 100, **settings)
        assert found == uuid and memory["total"] == 256 * (i + 1) * MIB
        tenants.append((program, settings))
    for i, (program, settings) in enumerate(tenants):
        found = look(card, **settings)
        assert found["row"] == {SLICES[i]: [[program.pid, CONTEXT + 100 * MIB, i + 1, 0]]}
        assert found["slice"][SLICES[i]][0][1] == CONTEXT + 100 * MIB
        assert found["slice"][SLICES[1 - i]][0][1] == 0
        # The card's handle tells of what the tenant has of the slices, all of them together.
        total, used = 2 * 256 * (i + 1) * MIB, CONTEXT + 100 * MIB
        assert found["cardrow"] == {CARD: [[program.pid, used, i + 1, 0]]}
        assert found["card"][CARD] == [[total, used, total - used]]
    plain = look(card, preload=())
    assert sorted(plain["row"]) == SLICES and len(plain["cardrow"][CARD]) == 2
    for program, _ in tenants:
        program.go().end()


def test_a_card_with_a_slice_that_has_no_limit(card):
    """Nothing is held there, so what NVML says of the card as a whole stays."""
    spec = f"{SLICES[0]}:256m"
    program, _, _ = hold(card, 100, RATION_MEM=spec)
    foreign, _, _ = hold(card, 50, preload=(), CUDA_VISIBLE_DEVICES=SLICES[1])
    found = look(card, RATION_MEM=spec)
    assert found["card"] == look(card, preload=())["card"]
    assert {row[0] for row in found["cardrow"][CARD]} == {program.pid, foreign.pid}
    assert found["row"][SLICES[0]] == [[program.pid, CONTEXT + 100 * MIB, 1, 0]]
    foreign.kill()
    program.go().end()


def test_a_slice_that_is_smaller_than_its_limit(card):
    program, _, memory = hold(card, 100, RATION_MEM="8g")
    assert memory == {"total": SLICE_MIB * MIB, "free": SLICE_MIB * MIB - CONTEXT - 100 * MIB}
    program.go().end()


def test_the_limit_is_held_to_the_block(card):
    card.settings.update(RATION_MEM=f"{SLICES[1]}:256m", CUDA_VISIBLE_DEVICES=SLICES[1])
    program = card.start("quota", "exact", "alloc", 2 * MIB).await_word("full")
    # The region has the slices of the first card as devices 0 and 1.
    assert [card.charged(dev) for dev in range(3)] == [0, 256 * MIB, 0]
    assert program.go().await_word("empty").go().end().values["pieces"] == 96
