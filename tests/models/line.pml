/* A line that several gateways share: grant, lease and crash.
 *
 * What `gate/journal.lua`, `gate/replica.py` and `gate/cluster.py` do, as far as it decides who may use the slot: two
 * gateways, three requests, one slot. Everything that may happen is one step below, taken at any time at which it can
 * happen; `spin` goes through all orders of them. The journal itself is not here: that all read the same in one order
 * is what makes it one line, and is held against `core.line` elsewhere. What is here is time.
 *
 * Clocks are as leases have them: a gateway counts its lease from before it asked, so by its own clock it ends before
 * it does by the server's (`own_ends` comes before `server_ends`), and one that stands still cannot act on it.
 *
 * Two things must hold:
 *   the cap      never two at work, but for what a gateway runs that stands still, or that could not be reached when the
 *                server began anew (see `excused`)
 *   nobody lost  when nothing can happen any more, whoever asked a gateway that is there has been served, or has been
 *                told that its slot was lost
 * Nothing goes round in a circle: there are so many faults and no more, so every run ends, and shows what comes at last.
 *
 *   spin -a line.pml && gcc -O2 -DSAFETY -o pan pan.c && ./pan -m100000
 */

#ifndef FAULTS             /* how many there are at most, of whatever kinds */
#define FAULTS 2
#endif
#ifndef CARELESS           /* what `spin` must find wrong: a gateway does not look whether its slot is still free */
#define CARELESS 0
#endif
#define G 2                /* gateways */
#define N 3                /* requests */
#define HOME(q) (q / 2)    /* the gateway that each came to */
#define NOBODY 255

mtype = { NEW, ASKS, RUNS, ENDED, LOST, GONE }

/* what gateways know */
mtype state[N] = NEW;
byte place[N];             /* its number in the order of all arrivals; 0: not known yet */
bool goodbye[N];           /* its end is to be written */
bool up[G] = true;
bool stands[G];            /* it stands still */
bool reaches[G] = true;    /* the server */
bool own[G];               /* it has a lease by its own clock */
bool excused[G];
byte knows[G];             /* which journal */

/* what the server knows */
bool member[G];
bool waits[N];
bool holds[N];
byte number[N];
byte last;                 /* number given out */
byte journal = 1;
bool settled = true;
byte fence, fence_of[N];
byte seen;                 /* the greatest fence that anybody has acted on */

byte faults;
byte i, j, first, at_work;

/* Whoever stands first gets the slot, if it is free: `core.line`. */
inline grant() {
    first = NOBODY;
    for (i : 0 .. N - 1) {
        if
        :: waits[i] && (first == NOBODY || number[i] < number[first]) -> first = i
        :: else
        fi
    };
    at_work = 0;
    for (i : 0 .. N - 1) { at_work = at_work + holds[i] };
    if
    :: settled && at_work == 0 && first != NOBODY ->
        waits[first] = false; holds[first] = true; fence++;
        fence_of[first] = fence
    :: else
    fi
}

/* All that a gateway had is gone. */
inline end_of(g) {
    member[g] = false;
    for (j : 0 .. N - 1) {
        if
        :: HOME(j) == g -> waits[j] = false; holds[j] = false
        :: else
        fi
    };
    grant()
}

/* Whatever runs there ends, because the slot may be another one's by now. */
inline lapse(g) {
    own[g] = false;
    for (j : 0 .. N - 1) {
        if
        :: HOME(j) == g && state[j] == RUNS -> state[j] = LOST; goodbye[j] = true
        :: else
        fi
    };
    excused[g] = false
}

/* It begins: a lease, and everything is said, with the places that are known. */
inline enter(g) {
    at_work = 0;
    for (j : 0 .. N - 1) { at_work = at_work + holds[j] };
    if
    :: knows[g] == journal -> lapse(g)  /* its lease in this very journal has ended */
    :: knows[g] != journal && at_work > 0 && !CARELESS -> lapse(g)  /* it comes too late: the slot is somebody's */
    :: else
    fi;
    knows[g] = journal; member[g] = true; own[g] = true;
    excused[g] = excused[g] && !settled;   /* until all have come, whose word is right is not known */
    for (j : 0 .. N - 1) {
        if
        :: HOME(j) == g && state[j] == RUNS -> holds[j] = true; number[j] = place[j]
        :: HOME(j) == g && state[j] == ASKS ->
            waits[j] = true;
            if
            :: place[j] == 0 -> last++; number[j] = last
            :: else -> number[j] = place[j]
            fi
        :: else
        fi;
        if
        :: HOME(j) == g -> goodbye[j] = false
        :: else
        fi
    };
    grant()
}

/* It is gone, and whoever came to it with it. */
inline forget(g) {
    for (j : 0 .. N - 1) {
        if
        :: HOME(j) == g -> state[j] = GONE; goodbye[j] = false
        :: else
        fi
    };
    own[g] = false; excused[g] = false
}

#define ACTS(g)   (up[g] && !stands[g])
#define SPEAKS(g) (ACTS(g) && reaches[g] && member[g])

inline check() {
    at_work = 0;
    for (i : 0 .. N - 1) {
        if
        :: state[i] == RUNS && !stands[HOME(i)] && !excused[HOME(i)] -> at_work++
        :: else
        fi
    };
    assert(at_work <= 1)
}

/* What request `q` may bring about. */
proctype request(byte q) {
end:
    do
    :: atomic { ACTS(HOME(q)) && state[q] == NEW -> state[q] = ASKS; check() }
    :: atomic { SPEAKS(HOME(q)) && state[q] == ASKS && !waits[q] && !holds[q] -> /* its join is written */
        last++; number[q] = last; waits[q] = true; grant(); check() }
    :: atomic { SPEAKS(HOME(q)) && state[q] == ASKS && waits[q] && place[q] == 0 -> /* and read */
        place[q] = number[q]; check() }
    :: atomic { SPEAKS(HOME(q)) && own[HOME(q)] && state[q] == ASKS && holds[q] -> /* its grant is acted on */
        assert(fence_of[q] > seen); seen = fence_of[q];
        place[q] = number[q]; state[q] = RUNS; check() }
    :: atomic { ACTS(HOME(q)) && state[q] == RUNS -> /* the upstream is left first … */
        state[q] = ENDED; goodbye[q] = true; check() }
    :: atomic { SPEAKS(HOME(q)) && goodbye[q] -> /* … and then the line */
        goodbye[q] = false; waits[q] = false; holds[q] = false; grant(); check() }
    od
}

/* What gateway `g` may do, and what may happen to it. */
proctype gateway(byte g) {
end:
    do
    :: atomic { SPEAKS(g) && !own[g] -> own[g] = true; check() } /* a beat */
    :: atomic { up[g] && own[g] && stands[g] -> own[g] = false; check() } /* and it cannot act on that */
    :: atomic { ACTS(g) && own[g] && !reaches[g] -> lapse(g); check() }
    :: atomic { member[g] && !SPEAKS(g) && !(own[g] && up[g]) -> end_of(g); check() }
    :: atomic { ACTS(g) && reaches[g] && !member[g] -> enter(g); check() }
    :: atomic { faults < FAULTS && up[g] -> faults++; up[g] = false; forget(g); check() }
    :: atomic { faults < FAULTS && reaches[g] -> faults++; reaches[g] = false; check() }
    :: atomic { !reaches[g] -> reaches[g] = true; check() }
    :: atomic { faults < FAULTS && ACTS(g) -> faults++; stands[g] = true; check() }
    :: atomic { stands[g] && up[g] && own[g] && !excused[g] -> stands[g] = false; check() }
    :: atomic { stands[g] && up[g] && !(own[g] && !excused[g]) -> /* before anything else */
        stands[g] = false; lapse(g); check() }
    od
}

/* Whether the server need not wait for `g` any longer: it has come, or cannot. */
#define CAME(g) (member[g] || !up[g] || !reaches[g] || stands[g])

active proctype world() {
    atomic { run request(0); run request(1); run request(2); run gateway(0); run gateway(1) };
    do
    :: atomic { faults < FAULTS -> /* the server is there again, and knows nothing */
        faults++; journal++; settled = false;
        for (j : 0 .. N - 1) { waits[j] = false; holds[j] = false };
        for (j : 0 .. G - 1) { member[j] = false };
        check() }
    :: atomic { !settled && CAME(0) && CAME(1) -> /* half a lease has passed since */
        for (j : 0 .. G - 1) { excused[j] = up[j] && !member[j] };
        settled = true; grant(); check() }
    :: timeout -> break
    od;
    for (i : 0 .. N - 1) { assert(state[i] == ENDED || state[i] == LOST || state[i] == GONE) }
}
