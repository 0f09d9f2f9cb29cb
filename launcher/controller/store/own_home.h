// Whether a state directory may be used: nobody but its owner may have put anything there.
#pragma once

#include "launcher/controller/store/home.h"
#include "scheduler/model/result.h"

namespace muster {

// Made where it is missing, with mode 0700. One of another user, or that others may write to, is
// refused. The Error says what to do.
Status own_home(const Home& home);
// The same for who only reads: nothing is made or changed.
Status check_home(const Home& home);

}  // namespace muster
