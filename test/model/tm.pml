/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag matching split between software and a device, as doc/offload.md has it: a matcher that holds
 * every receive, a list of some of them in the device, one queue of commands, one queue of
 * completions. Messages come through the device or, from one source, by another path. Each
 * alternative of the loop is one atomic step of software or device, so SPIN sees every order.
 *
 * Receives name a tag or any, and any source: so they overlap as much as receives can. Who is
 * posted and who waits is in rst and mst, the truth; sw is what software knows.
 *
 * BUG selects an error in the protocol, 0 none; protocol.sh says which.
 */
#ifndef NM
#define NM 3 /* messages */
#endif
#ifndef NR
#define NR 3 /* receives */
#endif
#ifndef NS
#define NS 2 /* slots of the device's list */
#endif
#ifndef NSRC
#define NSRC 1 /* sources behind the device */
#endif
#ifndef NOTHER
#define NOTHER 1 /* messages by the other path, at most */
#endif
#ifndef NCANCEL
#define NCANCEL 1
#endif
#ifndef SPLIT
#define SPLIT 0 /* 1: a match may complete in two steps */
#endif
#ifndef NBUF
#define NBUF 3 /* buffers for unexpected messages; below MOD */
#endif
#ifndef MOD
#define MOD 4 /* of the counters */
#endif
#ifndef BUG
#define BUG 0
#endif

#define ANY   2
#define NONE  255
#define OTHER NSRC /* the source by the other path */

/* rst */
#define UNPOSTED  0
#define POSTED    1
#define MATCHED   2
#define CANCELLED 3

/* sw: where software has a receive */
#define OUT        0
#define PLAIN      1 /* in the matcher, never to be listed */
#define WAITING    2 /* in the matcher, to be listed */
#define LISTED     3 /* in the matcher and on the list */
#define DATA       4 /* matched by the device, data to come */
#define CANCELLING 5
#define UNLISTING  6 /* for the first of parked */

#define in_matcher(r)   (sw[r] >= PLAIN && sw[r] <= LISTED)
#define unlisted(r)     (sw[r] == PLAIN || sw[r] == WAITING)
#define compat(r, m)    (rtag[r] == ANY || rtag[r] == mtag[m])
#define overlap(a, b)   (rtag[a] == ANY || rtag[b] == ANY || rtag[a] == rtag[b])

#if NS > 1
#define data_is_in (hw_data[0] == NONE && hw_data[1] == NONE)
#else
#define data_is_in (hw_data[0] == NONE)
#endif

mtype = { ADD, DEL, SYNC, UNEXP, MATCH, MATCHDATA, LATEDATA, DELOK, DELFAIL };

chan cmdq = [8] of { mtype, byte, byte, byte, bit }; /* command, slot, receive, count, is it signaled */
chan cq = [8] of { mtype, byte, byte };              /* completion, slot, message */
chan parked = [NM] of { byte };

byte mtag[NM], msrc[NM];
bit mst[NM]; /* 1: waits for a receive */
byte rtag[NR], rst[NR], sw[NR], slot[NR];
byte passed[NR];              /* passed over by a message: 1: so it must be cancelled, 2 + m: or get message m */
bit uq[NM];                 /* unexpected messages of the matcher */
byte sw_slot[NS] = NONE;    /* whose slot, for software */
byte hw_recv[NS] = NONE;    /* for the device */
bit hw_en[NS];
byte hw_age[NS];
byte hw_data[NS] = NONE;    /* message that matched and has data to come */
byte hw_cnt, sw_rep, handled, age;
byte bufs = NBUF, nm, nr, nother, ncancel, removing, unlisting = NONE;
byte r, m, s, k, x, c, tag, src;
bit ok, sig;
mtype op;

/* A match, whoever makes it; assertions I1 to I4 of doc/offload.md. */
inline domatch(rr, mm) {
  assert(rst[rr] == POSTED && mst[mm] && compat(rr, mm));
  assert(passed[rr] == 0 || passed[rr] == 2 + mm);
  k = 0;
  do
  :: k < nm -> assert(!(k < mm && mst[k] && msrc[k] == msrc[mm] && compat(rr, k))); k++
  :: else -> break
  od;
  k = 0;
  do
  :: k < rr ->
     if
     :: rst[k] == POSTED && compat(k, mm) ->
        assert(sw[k] == CANCELLING || sw[k] == UNLISTING);
        if
        :: sw[k] == CANCELLING -> passed[k] = 1
        :: else -> parked?<x>; passed[k] = 2 + x; x = 0
        fi
     :: else
     fi;
     k++
  :: else -> break
  od;
  rst[rr] = MATCHED; mst[mm] = 0; k = 0
}

/* r = the oldest receive in the matcher that message m fits, or NONE */
inline find_recv() {
  r = 0;
  do
  :: r < nr && !(in_matcher(r) && compat(r, m)) -> r++
  :: else -> break
  od;
  if :: r == nr -> r = NONE :: else fi
}

/* ok = receive r may be listed */
inline may_list() {
  ok = 1; k = 0;
  do
  :: k < r -> if :: unlisted(k) && overlap(k, r) && BUG != 4 && !(BUG == 9 && sw[r] == WAITING) -> ok = 0 :: else fi; k++
  :: else -> break
  od;
  k = 0; s = 0;
  do :: s < NS && sw_slot[s] != NONE -> s++ :: else -> break od;
  if :: s == NS -> ok = 0; s = 0 :: else fi
}

inline list_it() {
  sw[r] = LISTED; slot[r] = s; sw_slot[s] = r; cmdq!ADD,s,r,handled,0
}

inline free_slot(rr) {
  if :: sw_slot[slot[rr]] == rr -> sw_slot[slot[rr]] = NONE :: else fi;
  slot[rr] = 0
}

#define BY_OTHER  0 /* by the other path */
#define BY_DEVICE 1 /* unexpected to the device */
#define AGAIN     2 /* the first of parked, which stays so where it must wait again */

/* Message m comes to software. */
inline arrive(by) {
  find_recv();
  if
  :: r == NONE -> uq[m] = 1
  :: r != NONE && sw[r] == LISTED && (by == BY_DEVICE || BUG == 7) ->
#if BUG == 3
     handled = (handled + 1) % MOD; cmdq!SYNC,0,NONE,handled,0;
#endif
     cmdq!DEL,slot[r],r,handled,0; free_slot(r); sw[r] = OUT; domatch(r, m)
  :: r != NONE && sw[r] == LISTED && !(by == BY_DEVICE || BUG == 7) ->
     cmdq!DEL,slot[r],r,handled,1; sw[r] = UNLISTING; unlisting = r; removing++;
     if :: by == BY_OTHER -> parked!m :: else fi
  :: else -> sw[r] = OUT; domatch(r, m)
  fi
}

/* The outcome of a DEL. */
inline settle() {
  removing--;
  if
  :: op == DELFAIL && BUG != 6 ->
     assert(rst[r] == MATCHED);
     if :: sw[r] == UNLISTING -> unlisting = NONE :: else fi;
     if :: hw_data[s] == NONE -> sw[r] = OUT; free_slot(r) :: else -> sw[r] = DATA fi
  :: else ->
     free_slot(r);
     if
     :: sw[r] == CANCELLING -> assert(rst[r] == POSTED && passed[r] < 2); rst[r] = CANCELLED; sw[r] = OUT
     :: else -> unlisting = NONE; sw[r] = OUT; parked?m; domatch(r, m); m = 0
     fi
  fi
}

init {
  do
  /* ---- the program ---- */
  :: atomic { nr < NR ->
       r = nr;
       if :: rtag[r] = 0 :: rtag[r] = 1 :: rtag[r] = ANY fi;
       nr++; rst[r] = POSTED;
       m = 0;
       do :: m < nm && !(uq[m] && compat(r, m)) -> m++ :: else -> break od;
       if
       :: m < nm -> uq[m] = 0; domatch(r, m)
       :: else ->
          may_list();
          if
          :: ok -> list_it()
          :: !ok -> sw[r] = WAITING
          :: sw[r] = PLAIN /* too short, not contiguous, ... */
          fi
       fi;
       r = 0; m = 0; s = 0; ok = 0 }
  :: atomic { ncancel < NCANCEL && nr > 0 ->
       ncancel++;
       if :: r = 0 :: nr > 1 -> r = 1 :: nr > 2 -> r = 2 fi;
       if
       :: unlisted(r) -> sw[r] = OUT; rst[r] = CANCELLED
       :: sw[r] == LISTED ->
#if BUG == 5
          cmdq!DEL,slot[r],r,handled,0; free_slot(r); sw[r] = OUT; if :: rst[r] == POSTED -> rst[r] = CANCELLED :: else fi
#else
          cmdq!DEL,slot[r],r,handled,1; sw[r] = CANCELLING; removing++
#endif
       :: else
       fi;
       r = 0 }

  /* ---- software ---- */
  :: atomic { nempty(cq) -> cq?op,s,m;
       if
       :: op == UNEXP ->
#if BUG == 2
          handled = (handled + 1) % MOD; cmdq!SYNC,0,NONE,handled,0;
#endif
          arrive(BY_DEVICE);
#if BUG != 2 && BUG != 3
          handled = (handled + 1) % MOD;
#endif
          bufs++
       :: op == MATCH || op == MATCHDATA ->
          r = sw_slot[s]; assert(r != NONE && rst[r] == MATCHED && slot[r] == s);
          if
          :: sw[r] == LISTED && op == MATCHDATA -> sw[r] = OUT; free_slot(r)
          :: sw[r] == LISTED && op == MATCH -> sw[r] = DATA;
#if BUG == 10
             sw_slot[s] = NONE
#endif
          :: else -> assert(sw[r] == CANCELLING || sw[r] == UNLISTING)
          fi
       :: op == LATEDATA ->
          r = sw_slot[s]; assert(r != NONE && rst[r] == MATCHED && slot[r] == s);
          hw_data[s] = NONE;
          if :: sw[r] == DATA -> sw[r] = OUT; free_slot(r) :: else -> assert(sw[r] == CANCELLING || sw[r] == UNLISTING) fi
       :: else -> r = m; m = 0; settle()
       fi;
       r = 0; m = 0; s = 0; op = 0 }
  :: atomic { nm < NM && nother < NOTHER -> /* a message by the other path */
       m = nm; nm++; nother++; mst[m] = 1; msrc[m] = OTHER;
       if :: mtag[m] = 0 :: mtag[m] = 1 fi;
       if
       :: (removing > 0 || len(parked) > 0) && BUG != 8 -> parked!m
       :: else -> arrive(BY_OTHER)
       fi;
       r = 0; m = 0 }
  :: atomic { removing == 0 && nempty(parked) -> parked?<m>; arrive(AGAIN);
       if :: unlisting == NONE -> parked?m :: else fi;
       r = 0; m = 0 }
  :: atomic { (nr > 0 && sw[0] == WAITING) || (nr > 1 && sw[1] == WAITING) || (nr > 2 && sw[2] == WAITING) ->
       r = 0; /* list a waiting receive, the oldest */
       do :: r < nr && sw[r] != WAITING -> r++ :: else -> break od;
#if BUG == 11
       r = nr - 1; do :: r > 0 && sw[r] != WAITING -> r-- :: else -> break od;
       sw[r] = LISTED; may_list(); sw[r] = WAITING;
       if :: ok == 0 && s < NS && sw_slot[s] == NONE -> ok = 1 :: else fi;
#else
       may_list();
#endif
       if :: ok -> list_it() :: else fi;
       r = 0; s = 0; ok = 0 }
  :: atomic { handled != sw_rep && empty(cmdq) && empty(cq) -> cmdq!SYNC,0,NONE,handled,0 }

  /* ---- the device ---- */
  :: atomic { nempty(cmdq) -> cmdq?op,s,r,c,sig;
       if
       :: op == ADD -> assert(hw_recv[s] == NONE); hw_recv[s] = r; hw_en[s] = 0; hw_age[s] = age; age++
       :: op == DEL && hw_recv[s] == r -> hw_recv[s] = NONE; hw_en[s] = 0; hw_age[s] = 0; if :: sig -> cq!DELOK,s,r :: else fi
       :: op == DEL && hw_recv[s] != r && sig -> cq!DELFAIL,s,r
       :: else
       fi;
       sw_rep = c;
       if
       :: sw_rep == hw_cnt || BUG == 1 ->
          s = 0; do :: s < NS -> hw_en[s] = (hw_recv[s] != NONE); s++ :: else -> break od
       :: else
       fi;
       s = 0; r = 0; c = 0; sig = 0; op = 0 }
  :: atomic { nm < NM -> /* a message */
       if :: tag = 0 :: tag = 1 fi;
       if
       :: src = 0
#if NSRC > 1
       :: src = 1
#endif
       fi;
       x = NONE; s = 0;
       do
       :: s < NS ->
          if
          :: hw_recv[s] != NONE && hw_en[s] && (rtag[hw_recv[s]] == ANY || rtag[hw_recv[s]] == tag) ->
             if :: x == NONE -> x = s :: x != NONE && hw_age[s] < hw_age[x] -> x = s :: else fi
          :: else
          fi;
          s++
       :: else -> break
       od;
       s = x; x = 0;
       if
       :: s != NONE || bufs > 0 ->
          m = nm; nm++; mtag[m] = tag; msrc[m] = src; mst[m] = 1;
          if
          :: s == NONE -> bufs--; hw_cnt = (hw_cnt + 1) % MOD; cq!UNEXP,0,m
          :: else ->
             r = hw_recv[s]; hw_recv[s] = NONE; hw_en[s] = 0; hw_age[s] = 0; domatch(r, m);
             if
             :: cq!MATCHDATA,s,m
#if SPLIT
             :: hw_data[s] = m; cq!MATCH,s,m
#endif
             fi
          fi
       :: else /* no buffer: it waits outside */
       fi;
       r = 0; m = 0; s = 0; tag = 0; src = 0 }
#if SPLIT
  :: atomic { hw_data[0] != NONE && !(hw_data[0] & 128) -> cq!LATEDATA,0,hw_data[0]; hw_data[0] = hw_data[0] | 128 }
#if NS > 1
  :: atomic { hw_data[1] != NONE && !(hw_data[1] & 128) -> cq!LATEDATA,1,hw_data[1]; hw_data[1] = hw_data[1] | 128 }
#endif
#endif

  /* ---- the end: nothing is lost (I5, I6) ---- */
  :: atomic { nr == NR && nm == NM && empty(cq) && empty(cmdq) && empty(parked) && data_is_in -> break }
  od;
  assert(removing == 0 && unlisting == NONE);
  m = 0;
  do :: m < NM -> assert(!mst[m] || uq[m]); m++ :: else -> break od;
  r = 0;
  do
  :: r < NR ->
     assert(rst[r] != POSTED || in_matcher(r));
     k = 0;
     do :: k < NM -> assert(!(rst[r] == POSTED && uq[k] && compat(r, k))); k++ :: else -> break od;
     k = 0; r++
  :: else -> break
  od
}
