#include "launcher/agent/attempt/exit_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

namespace muster {

namespace {

std::optional<ExitLogLine> parse_line(const std::string& line) {
  long long rank = 0;
  long long pid = 0;
  if (std::sscanf(line.c_str(), "started %lld %lld", &rank, &pid) == 2) {
    return RankStart{RankId{rank}, static_cast<pid_t>(pid)};
  }
  RankExit exit;
  long long latest = 0;
  long long earliest = 0;
  int asked = 0;
  int core = 0;
  int with_mpirun = 0;
  char boot[64] = "";
  const int found = std::sscanf(line.c_str(), "ended %lld %d %d %lld %d %lld %d %d %63s", &rank,
                                &exit.status.code, &exit.status.signal, &latest, &asked, &earliest,
                                &core, &with_mpirun, boot);
  if (found < 5) return {};
  exit.rank = RankId{rank};
  exit.latest = RawTime(latest);
  exit.earliest = RawTime(earliest);
  exit.asked_to_stop = asked != 0;
  exit.status.core_dumped = core != 0;
  exit.with_mpirun = with_mpirun != 0;
  exit.boot = boot;
  return exit;
}

}  // namespace

std::string exit_log_path(const std::string& spool_directory) {
  return spool_directory + "/exits";
}

void append_exit_log(const std::string& path, const ExitLogLine& line) {
  char text[256];
  int length = 0;
  if (const auto* start = std::get_if<RankStart>(&line)) {
    length = std::snprintf(text, sizeof text, "started %lld %d\n",
                           static_cast<long long>(start->rank.value), start->pid);
  } else {
    const RankExit& exit = std::get<RankExit>(line);
    length =
        std::snprintf(text, sizeof text, "ended %lld %d %d %lld %d %lld %d %d %s\n",
                      static_cast<long long>(exit.rank.value), exit.status.code, exit.status.signal,
                      static_cast<long long>(exit.latest.count()), exit.asked_to_stop ? 1 : 0,
                      static_cast<long long>(exit.earliest.count()),
                      exit.status.core_dumped ? 1 : 0, exit.with_mpirun ? 1 : 0,
                      exit.boot.c_str());
  }
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  [[maybe_unused]] const ssize_t put = ::write(file.get(), text, static_cast<std::size_t>(length));
}

std::vector<ExitLogLine> ExitLogReader::read_new() {
  std::vector<ExitLogLine> lines;
  if (!file_) file_ = Fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file_) return lines;
  std::string text;
  char buffer[4096];
  off_t at = offset_;
  for (ssize_t got = 0; (got = ::pread(file_.get(), buffer, sizeof buffer, at)) > 0; at += got) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  std::size_t start = 0;
  for (std::size_t end = 0; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    if (auto line = parse_line(text.substr(start, end - start))) lines.push_back(*line);
  }
  offset_ += static_cast<off_t>(start);
  return lines;
}

}  // namespace muster
