// How long to wait before a connection that sshd dropped is tried again. Pure but for its dice.
#pragma once

#include <random>

#include "scheduler/model/clock.h"

namespace muster {

// Doubles from 0.1 s to 3 s with each drop (from 1), and half of it is random: hosts that were
// turned away together must not come back together.
Milliseconds pause_after_drops(int drops, std::mt19937_64& dice);

}  // namespace muster
