# SPDX-License-Identifier: BSD-3-Clause
"""What waits in a process that uses pml tm, for gdb with Python:

    gdb -p PID -x gdb.py -ex pml-tm          a running process
    gdb -x gdb.py -ex pml-tm PROGRAM CORE    a core file

Reads memory only: nothing is called in the process.  It needs the debugging information of
mca_pml_tm.so and libmca_common_tm.so (configure's default flags have -g).
"""

import gdb

LIMIT = 100  # lines for each communicator

RNDV = 1  # FAB_AM_RNDV
CHUNK = 256  # FAB_CHUNK_PEERS


PHASES = {
    "PML_TM_WAIT_ROOM": "waits for room towards the receiver",
    "PML_TM_HELD": "held back: the receiver is short of memory for unexpected messages",
    "PML_TM_WAIT_ACK": "synchronous, not matched yet",
    "PML_TM_WAIT_FIN": "announced, the receiver has not fetched it",
    "PML_TM_SEND_DATA": "its data is being sent",
    "PML_TM_FETCH": "fetched from the sender's memory",
    "PML_TM_STREAMED": "arrives in fragments",
    "PML_TM_WAIT_AGAIN": "to be announced again",
    "PML_TM_WAIT_DATA": "its data comes as messages",
}


def offset(kind, path):
    """Of a member, in bytes; the path may lead through structures."""
    bits = 0
    for name in path.split("."):
        field = kind.strip_typedefs()[name]
        bits += field.bitpos
        kind = field.type
    return bits // 8


def owner(pointer, name, path):
    """The structure of this type whose member the pointer is the address of."""
    kind = gdb.lookup_type(name)
    address = int(pointer) - offset(kind, path)
    return gdb.Value(address).cast(kind.pointer()).dereference()


def walk(head, name, path):
    """The entries of a ring (fab_match_list_t)."""
    item = head["next"]
    while item != head.address:
        yield owner(item, name, path)
        item = item["next"]


def number(value):
    return "any" if int(value) == -1 else str(int(value))


class Dump:
    """One look at the process."""

    def __init__(self):
        try:
            self.tm = gdb.parse_and_eval("mca_pml_tm")
            self.recv = "mca_pml_tm_recv_request_t"
            gdb.lookup_type(self.recv)
        except gdb.error as error:
            raise gdb.GdbError(
                "pml tm is not in this process, or its debugging information is missing (%s)"
                % error
            )
        self.bits = int(self.tm["source_bits"])
        self.phases = {}
        for field in gdb.lookup_type("mca_pml_tm_phase_t").strip_typedefs().fields():
            self.phases[field.enumval] = PHASES.get(field.name, field.name)

    def line(self, text):
        if self.left > 0:
            gdb.write(text + "\n")
        self.left -= 1

    def message(self, what, msg):
        tag = int(msg["hdr"]["tag"])
        source = tag >> 32 & ((1 << self.bits) - 1)
        user = tag & 0xFFFFFFFF
        user -= (user & 0x80000000) << 1
        if int(msg["hdr"]["id"]) == RNDV:
            how = "announced"
        else:
            how = "synchronous" if int(msg["hdr"]["app_ctx"]) != 0 else "here"
        self.line(
            "  %-11s from %-6d tag %-8d %d bytes, %s"
            % (what, source, user, int(msg["len"]), how)
        )

    def posted(self, match):
        req = owner(match.address, self.recv, "offload")
        base = req["req_recv"]["req_base"]
        kind = base["req_datatype"].dereference()["name"].string()
        self.line(
            "  receive     from %-6s tag %-8s up to %d bytes, %s at %#x"
            % (
                number(match["source"]),
                number(match["tag"]),
                int(req["capacity"]),
                kind,
                int(base["req_addr"]),
            )
        )

    def receives(self, match):
        short = match["posted_short"]
        if int(short) != 0:
            places = short.dereference()["recv"].type.sizeof // short.type.sizeof
            for i in range(int(match["nshort"])):
                at = (int(match["short_at"]) + i) % places
                self.posted(short["recv"][at].dereference())
        for recv in walk(match["posted_order"], "fab_match_recv_t", "order"):
            self.posted(recv)

    def messages(self, match, kind="unexpected"):
        found = []
        for ring in ("unexp_user", "unexp_internal"):
            for msg in walk(match[ring], "fab_match_msg_t", "order"):
                found.append((int(msg["seq"]), msg))
                if len(found) > 2 * LIMIT:
                    break
        for _, msg in sorted(found, key=lambda pair: pair[0]):
            self.message(kind, owner(msg.address, "mca_pml_tm_msg_t", "match"))
        self.left -= max(0, int(match["unexp_count"]) - len(found))

    def send(self, req, comm):
        base = req["req_send"]["req_base"]
        if base["req_comm"] == comm:
            self.line(
                "  send        to   %-6d tag %-8d %d bytes, %s"
                % (
                    int(base["req_peer"]),
                    int(base["req_tag"]),
                    int(req["req_send"]["req_bytes_packed"]),
                    self.phases.get(int(req["core"]["phase"]), "?"),
                )
            )

    def arriving(self, req, comm):
        base = req["req_recv"]["req_base"]
        status = base["req_ompi"]["req_status"]
        if base["req_comm"] == comm:
            is_fetch = "fetched" in self.phases.get(int(req["core"]["phase"]), "")
            self.line(
                "  arriving    from %-6d tag %-8d %d of %d bytes, %s"
                % (
                    int(status["MPI_SOURCE"]),
                    int(status["MPI_TAG"]),
                    int(req["rma"]["done"] if is_fetch else req["received"]),
                    int(req["wanted"]),
                    self.phases.get(int(req["core"]["phase"]), "?"),
                )
            )

    def operations(self, comm):
        core_type = gdb.lookup_type("mca_pml_tm_core_t").pointer()
        ids = self.tm["ids"]
        waits = [key for key, text in self.phases.items() if text.startswith(("waits", "held"))]
        for i in range(int(ids["size"])):
            slot = ids["slots"][i]["object"]
            if int(slot) == 0:
                continue
            base = slot.cast(core_type)["base"]
            if int(base["req_type"]) == int(gdb.parse_and_eval("MCA_PML_REQUEST_SEND")):
                req = owner(slot, "mca_pml_tm_send_request_t", "core")
                if int(req["core"]["phase"]) not in waits:
                    self.send(req, comm)
            else:
                self.arriving(owner(slot, self.recv, "core"), comm)

    def held(self, comm):
        record = self.tm["peers"]
        while int(record) != 0:
            oldest = record["held"]
            while int(oldest) != 0:
                req = oldest
                while True:
                    self.send(req.dereference(), comm)
                    req = req["held_next"]
                    if req == oldest:
                        break
                oldest = oldest["held_other"]
            record = record["next"]

    def queued(self, comm):
        """Sends that wait for room: in the ring of items of each peer of the fabric."""
        core = self.tm["fab"].cast(gdb.lookup_type("fab_core_t").pointer())
        for i in range(int(core["num_chunks"])):
            for at in range(CHUNK):
                last = core["chunks"][i][at]["pending"]
                item = last
                while int(item) != 0:
                    item = item["next"]
                    if item["fn"] == self.tm["send_item"]:
                        self.send(owner(item, "mca_pml_tm_send_request_t", "item"), comm)
                    if item == last:
                        break

    def comm(self, tmc):
        match = tmc["match"]
        comm = tmc["comm"]
        self.left = LIMIT
        gdb.write(
            "pml tm: communicator %s [context %d, rank %d]: %d receives posted (at most %d), "
            "%d messages unexpected (at most %d)\n"
            % (
                comm["c_name"].string(),
                int(tmc["context"]),
                int(tmc["my_rank"]),
                int(match["posted_count"]),
                int(match["posted_max"]),
                int(match["unexp_count"]),
                int(match["unexp_max"]),
            )
        )
        self.receives(match)
        self.messages(match)
        self.operations(comm)
        self.queued(comm)
        self.held(comm)
        if self.left < 0:
            gdb.write("  ... and %d more\n" % -self.left)

    def all(self):
        for i in range(int(self.tm["num_comms"])):
            tmc = self.tm["comms"][i]
            if int(tmc) != 0:
                self.comm(tmc.dereference())
        self.left = LIMIT
        self.messages(self.tm["early"], "early")


class Command(gdb.Command):
    """List receives, messages and sends that wait in pml tm, for each communicator."""

    def __init__(self):
        super().__init__("pml-tm", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        Dump().all()


Command()
