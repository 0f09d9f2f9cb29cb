// Starts a program of this machine with chosen file descriptors; nothing else of ours leaks into
// it.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { close(); }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void close();

 private:
  int number_ = -1;
};

struct Inherit {
  int ours;
  int theirs;  // 0, 1, 2 or above
};

// The program is looked up in PATH; signals are reset to their defaults. Standard descriptors that
// are not named in `inherited` are /dev/null.
Result<pid_t> spawn(std::span<const std::string> argv, std::span<const Inherit> inherited);

// Kills and reaps; returns at once, a killed child of ours does not linger.
void kill_and_reap(pid_t child);

}  // namespace muster
