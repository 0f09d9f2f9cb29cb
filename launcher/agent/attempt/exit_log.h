// How the ranks of an attempt began and ended on this node, as lines appended to the file `exits`
// by the agent or by the `mpi-rank` wrapper; read by the agent and by the agent after it.
//
//   started <rank> <pid>
//   ended <rank> <exit code> <signal> <latest> <1: muster had asked it to stop>
//     <earliest> <1: core dumped> <1: with mpirun> <boot id>
//
// The rank was alive at `earliest` and dead at `latest`, both raw_time() in us of that boot, which
// counts anew in the next. A line of an older agent ends after its fifth number, its time unknown.
#pragma once

#include <sys/types.h>

#include <string>
#include <variant>
#include <vector>

#include "launcher/os/clocks.h"
#include "launcher/os/fd.h"
#include "scheduler/model/record.h"

namespace muster {

struct RankStart {
  RankId rank;
  pid_t pid = 0;
};

struct RankExit {
  RankId rank;
  ExitStatus status;
  RawTime latest{0};
  RawTime earliest{0};
  bool asked_to_stop = false;
  bool with_mpirun = false;  // it left no record of its own
  std::string boot{};        // whose raw_time() it is; empty: not known
};

using ExitLogLine = std::variant<RankStart, RankExit>;

std::string exit_log_path(const std::string& spool_directory);

// Appends one line; a failure (full disk) is not an error of the rank and is ignored.
void append_exit_log(const std::string& path, const ExitLogLine& line);

class ExitLogReader {
 public:
  explicit ExitLogReader(std::string path) : path_(std::move(path)) {}
  // Whole lines since the last call.
  std::vector<ExitLogLine> read_new();

 private:
  std::string path_;
  Fd file_;
  off_t offset_ = 0;
};

}  // namespace muster
