// One probe as a process of its own: measures, and prints what it found (probe_line.h). May use the
// whole node, and may hang in a driver or on a disk: whoever starts it kills it after its limit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/model/result.h"

namespace muster {

// What both ends of a probe of two nodes know and nobody else; not an argument, which everybody can
// read.
inline constexpr const char* probe_token_variable = "MUSTER_PROBE_TOKEN";

//   cpu                                         [--seconds N]
//   cpu-sdc                                     [--seconds N]
//   burn                                        [--seconds N] [--gpus N] [--root DIRECTORY]
//   memory                                      [--seconds N] [--array-mib N]
//   disk DIRECTORY                              [--seconds N] [--mib N]
//   dcgm                                        [--level N] [--seconds N]
//   tcp-serve             --port N              [--seconds N] [--address A]
//   tcp-connect HOST      --port N              [--seconds N] [--streams N]
//   ib-pair-serve HCA…    --port N              [--seconds N]
//   ib-pair-connect HOST HCA… --port N          [--seconds N]
//   ib-loop HCA HCA…                            [--seconds N] [--gpus N] [--port N]
//   gpu-host, gpu-memory, gpu-peer, gpu-matrix, gpu-sdc, gpu-nccl, gpu-nccl-loop   [--seconds N]
//   gpu-nccl-pair-serve --port N                [--seconds N] [--limit N] [--address A]
//   gpu-nccl-pair-connect HOST --port N         [--seconds N] [--limit N]
//
// Of a serving half the seconds are how long it waits for its partner (ib-pair-serve: of a
// bandwidth, as of the connecting one); the limit is of NCCL beside the measurement. An HCA is
// "mlx5_0" or "mlx5_0:1". `burn` looks for throttling and for Xids below DIRECTORY. The words for
// GPUs are obeyed by another program, which this process becomes: muster-gpu-probe beside it, or in
// PATH. Returns the exit code: 0 when it printed what there was to say, numbers or errors; 2 when
// the words make no sense.
int run_probe(const std::vector<std::string>& words);

// The words of a probe: names and numbers in their places, options anywhere. Pure.

class ProbeWords {
 public:
  // Words that begin with "--" are options, each with a number or name after it, among `options`.
  static Result<ProbeWords> read(const std::vector<std::string>& words,
                                 const std::vector<std::string_view>& options);

  const std::vector<std::string>& names() const { return names_; }
  std::string text(std::string_view option) const;  // empty: not given
  // Nothing when it is given and no whole number of this range.
  std::optional<std::int64_t> number(std::string_view option, std::int64_t usual,
                                     std::int64_t least, std::int64_t most) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::string, std::less<>> options_;
};

}  // namespace muster
