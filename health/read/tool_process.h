// A tool of the system, run with its output taken in. It dies with this process, and is killed when
// it takes longer than it may; what it started and left in its group is killed with it and after
// its end. No shell. For processes of one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// More of either output is thrown away, unless a tool is known to say more.
inline constexpr std::size_t tool_output_max = 1 << 20;

struct ToolRun {
  bool is_found = true;
  std::optional<int> exit_code;  // nothing: it was killed when its time was over, or never ran
  bool is_cut = false;           // some output was thrown away
  std::string output;
  std::string errors;
};

class ToolProcess {
 public:
  // argv[0] is looked up in PATH.
  explicit ToolProcess(const std::vector<std::string>& argv,
                       std::size_t output_max = tool_output_max);
  ~ToolProcess();  // kills it
  ToolProcess(const ToolProcess&) = delete;

  pid_t process() const { return pid_; }  // -1: it ended, or never ran
  // Whether it ended before the moment came; else it goes on.
  bool is_over(std::chrono::steady_clock::time_point until);
  // Until it ended, or the moment came. Then it may be asked to end, and has so long for that.
  ToolRun wait(std::chrono::steady_clock::time_point until, std::chrono::milliseconds grace = {});

 private:
  bool has_ended(std::chrono::steady_clock::time_point until);
  void take_output(int handle, std::chrono::steady_clock::time_point until);
  bool take(int fd, std::string& text);
  void kill();

  std::size_t output_max_;
  ToolRun run_;
  pid_t pid_ = -1;
  pid_t guard_ = -1;  // leads the group of the tool
  int output_ = -1;
  int errors_ = -1;
};

}  // namespace muster
