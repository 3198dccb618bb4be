"""The matrix of all ways to get device memory: its rows, one run of a row, and the table."""

MIB = 1 << 20
OUT_OF_MEMORY = 2
# What a driver answers that lacks something.
LACKING = {500: "NOT_FOUND", 801: "NOT_SUPPORTED", 1: "INVALID_VALUE", 101: "INVALID_DEVICE"}


class Row:
    """A way, and how large its pieces are. What the card does not show is counted as it was asked for.
    Pools grow until `spare` bytes of the limit are left, what shares blocks with others until a block is."""

    def __init__(self, way, piece, most=4096, shows=True):
        self.way, self.piece, self.most, self.shows = way, piece, most, shows
        self.spare = 0
        if way.startswith(("async", "pool-")):
            self.spare = 32 * MIB
        elif way == "alloc" and piece <= MIB:
            self.spare = 2 * MIB

    @property
    def name(self):
        size = f"{self.piece // MIB} MiB" if self.piece % MIB == 0 else f"{self.piece} B"
        return f"{self.way} {size}" if self.piece else self.way


ROWS = [
    Row("alloc", 2 * MIB), Row("alloc", 3 * MIB), Row("alloc", 1, most=1 << 23),
    Row("pitch", 2 * MIB),
    Row("managed", 2 * MIB, shows=False), Row("managed-host", 2 * MIB, shows=False),
    Row("async", 2 * MIB), Row("async", 3 * MIB), Row("async-ptsz", 2 * MIB),
    Row("pool-default", 2 * MIB), Row("pool-own", 2 * MIB), Row("pool-own", 48 * MIB),
    Row("pool-own-ptsz", 2 * MIB), Row("pool-keeping", 2 * MIB),
    Row("pool-managed", 2 * MIB, shows=False),
    Row("create", 2 * MIB), Row("create", 64 * MIB),
    Row("array-1d", 2 * MIB), Row("array-2d", 8 * MIB), Row("array-3d", 8 * MIB),
    Row("array-layered", 8 * MIB), Row("mipmap", 8 * MIB),
    Row("sparse", 32 * MIB, shows=False),
    Row("graph", 32 * MIB), Row("graph", 2 * MIB),
    Row("context", 0, most=64), Row("context-v4", 0, most=64), Row("green", 0, most=512),
    Row("module", 16 * MIB), Row("library", 16 * MIB),
    Row("module-managed", 16 * MIB, shows=False), Row("library-managed", 16 * MIB, shows=False),
    Row("heap", 16 * MIB),
    Row("local", 64 * MIB, most=64),
    Row("ipc", 32 * MIB), Row("shareable", 32 * MIB), Row("external", 32 * MIB), Row("pool-shared", 32 * MIB),
    Row("pool-given", 32 * MIB, shows=False), Row("descriptor", 32 * MIB, shows=False),
    Row("dma-buf", 32 * MIB, shows=False), Row("dma-buf-import", 32 * MIB, shows=False),
    Row("dma-buf-graph", 32 * MIB, shows=False),
]


class Outcome:
    """What came of a row."""

    def __init__(self, row, limit):
        self.row, self.limit = row, limit
        self.pieces = self.result = self.step = 0
        # The card's own figure for all processes of the tenant: before, at the fullest, at the end.
        self.overhead = self.full = self.empty = 0
        self.is_available = True

    @property
    def obtained(self):
        """Bytes, by the card where it shows them."""
        return self.full - self.overhead if self.row.shows else self.pieces * self.row.piece

    @property
    def held(self):
        return self.overhead + self.obtained

    @property
    def is_within(self):
        return self.held <= self.limit

    @property
    def is_exact(self):
        """Another piece would not have fitted, but in what is to be left."""
        left = self.limit - self.held
        return self.result == OUT_OF_MEMORY and 0 <= left < self.row.spare + max(self.step, 1)

    @property
    def note(self):
        if not self.is_available:
            return f"skipped: the driver answers {LACKING.get(self.result, self.result)}"
        if self.result == OUT_OF_MEMORY:
            return ""
        if self.result == 0 and self.obtained == 0:
            return "takes no memory on this driver"
        return f"ended by {self.result}" if self.result else "not refused"


def run_row(row, limit, await_word, go, card):
    """Runs a row whose program was started. await_word(word) gives the figures said before the word;
    go() lets it go on; card() gives the card's figure of the tenant."""
    outcome = Outcome(row, limit)
    await_word("ready")
    outcome.overhead = card()
    go()
    said = await_word("full")
    outcome.pieces, outcome.result, outcome.step = said["pieces"], said["result"], said["step"]
    outcome.full = card()
    outcome.is_available = not (outcome.pieces == 0 and outcome.result in LACKING)
    go()
    await_word("empty")
    outcome.empty = card()
    go()
    return outcome


def table(outcomes, title):
    """Markdown."""
    lines = [title, "", "| way | pieces | obtained, MiB | limit, MiB | overhead, MiB | exact |",
             "| --- | --- | --- | --- | --- | --- |"]
    for o in outcomes:
        exact = o.note or ("yes" if o.is_exact else f"no: {(o.limit - o.held) / MIB:g} MiB left")
        if o.is_available and not o.is_within:
            exact = "OVER THE LIMIT"
        figures = [o.pieces, f"{o.obtained / MIB:g}", o.limit // MIB, f"{o.overhead / MIB:g}"]
        if not o.is_available:
            figures = ["", "", "", ""]
        lines.append(f"| {o.row.name} | " + " | ".join(map(str, figures)) + f" | {exact} |")
    return "\n".join(lines) + "\n"
