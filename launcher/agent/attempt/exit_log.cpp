#include "launcher/agent/attempt/exit_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <sstream>

namespace muster {

namespace {

std::optional<ExitLogLine> parse_line(const std::string& line) {
  std::istringstream words(line);
  std::string kind;
  RankStart start;
  words >> kind >> start.rank.value;
  if (kind == "started" && words >> start.pid) return start;
  RankExit exit{start.rank, {}};
  RawTime::rep latest = 0;
  RawTime::rep earliest = 0;
  words >> exit.status.code >> exit.status.signal >> latest >> exit.asked_to_stop;
  if (kind != "ended" || !words) return {};
  words >> earliest >> exit.status.core_dumped >> exit.with_mpirun >> exit.boot;
  exit.latest = RawTime(latest);
  exit.earliest = RawTime(earliest);
  return exit;
}

}  // namespace

std::string exit_log_path(const std::string& spool_directory) {
  return spool_directory + "/exits";
}

void append_exit_log(const std::string& path, const ExitLogLine& line) {
  std::ostringstream words;
  if (const auto* start = std::get_if<RankStart>(&line)) {
    words << "started " << start->rank.value << ' ' << start->pid << '\n';
  } else {
    const RankExit& exit = std::get<RankExit>(line);
    words << "ended " << exit.rank.value << ' ' << exit.status.code << ' ' << exit.status.signal
          << ' ' << exit.latest.count() << ' ' << exit.asked_to_stop << ' ' << exit.earliest.count()
          << ' ' << exit.status.core_dumped << ' ' << exit.with_mpirun << ' ' << exit.boot << '\n';
  }
  const std::string text = words.str();
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  [[maybe_unused]] const ssize_t put = ::write(file.get(), text.data(), text.size());
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
