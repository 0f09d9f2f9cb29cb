// Only one agent of a host measures it: two would measure each other. Held as a name in the
// kernel's table of sockets, which is empty again when its holder is gone, however it ended. Any
// user of the host can hold it: who does is told, and is not believed for ever.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "launcher/os/fd.h"
#include "runtime/protocol/boot_clock.h"

namespace muster {

class BenchmarkClaim {
 public:
  BenchmarkClaim() = default;
  ~BenchmarkClaim() { give_back(); }
  BenchmarkClaim(const BenchmarkClaim&) = delete;
  BenchmarkClaim& operator=(const BenchmarkClaim&) = delete;

  // False: another one of this host has it. True when it is held already, and when one process has
  // it for longer than any measurement takes (8 h): then it is lost, which is logged.
  bool take(BootTime now = boot_time());
  void give_back();
  // Of the one that take() met: ", by process 17 of user 1000, for 5 min at least". Without a user:
  // the same, or nobody says. Without a time: it was met just now.
  std::string whose() const;
  // By any claim of this process, which measures then.
  static bool is_held_here() { return claims_held_ > 0; }

 private:
  struct Holder {
    pid_t pid = 0;  // 0: it does not say
    std::optional<uid_t> user;
    BootTime since{};
    BootTime asked_at{};
  };
  bool believes(BootTime now);

  inline static int claims_held_ = 0;
  bool is_held_ = false;
  Fd socket_;
  std::optional<Holder> holder_;
};

}  // namespace muster
