// A reader with the helper program of the tests, and what can be seen of its processes.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "health/read/node_reader.h"

namespace muster {

// The build says where the program is; the environment may say otherwise.
inline std::string helper_program() {
  const char* named = std::getenv("MUSTER_HEALTH_HELPER");
  if (named != nullptr) return named;
#ifdef MUSTER_HEALTH_HELPER
  return MUSTER_HEALTH_HELPER;
#else
  return "no helper was built";
#endif
}

inline NodeReader::Options reader_options(std::vector<std::string> way = {}) {
  NodeReader::Options options;
  options.helper = {helper_program()};
  options.limits.reaping = std::chrono::seconds(10);  // the machine may be busy
  options.helper.insert(options.helper.end(), way.begin(), way.end());
  return options;
}

// As far as it can be read: a process may go between the opening of its file and the reading.
inline std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // an iterator would throw
  return text.str();
}

// Fields of /proc/PID/stat behind the name: state, parent, …
inline std::vector<std::string> process_fields(const std::string& pid) {
  const std::string text = text_of_file("/proc/" + pid + "/stat");
  const std::size_t name_end = text.rfind(')');
  std::vector<std::string> fields;
  if (name_end == std::string::npos) return fields;
  for (std::size_t at = name_end + 2; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    fields.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return fields;
}

// Dead ones that nobody reaped too.
inline std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto fields = process_fields(name);
    if (fields.size() > 1 && fields[1] == std::to_string(::getpid()))
      children.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return children;
}

inline std::chrono::milliseconds since(SteadyTime began) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               began);
}

// As an owner with other things to do calls it. Whether it came to that in time.
template <class IsDone>
bool drive(NodeReader& reader, std::chrono::milliseconds most, const IsDone& is_done) {
  const auto began = std::chrono::steady_clock::now();
  while (!is_done()) {
    if (since(began) > most) return false;
    const auto wake = reader.wake_at().value_or(SteadyTime::max());
    const auto next = std::min(wake, std::chrono::steady_clock::now() + std::chrono::seconds(1));
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now());
    pollfd one{reader.descriptor(), POLLIN, 0};
    ::poll(&one, 1, static_cast<int>(std::clamp<long>(left.count(), 0, 1000)));
    reader.advance();
  }
  return true;
}

}  // namespace muster
