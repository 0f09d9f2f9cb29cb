#include "launcher/os/signal_name.h"

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace muster {

std::optional<int> signal_number(const std::string& name) {
  const std::string short_name = name.starts_with("SIG") ? name.substr(3) : name;
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* known = ::sigabbrev_np(signal);
    if (known != nullptr && short_name == known) return signal;
    if (short_name == std::to_string(signal)) return signal;
  }
  return {};
}

}  // namespace muster
