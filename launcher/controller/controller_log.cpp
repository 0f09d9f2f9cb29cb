#include "launcher/controller/controller_log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>

namespace muster {

namespace {

constexpr std::size_t log_limit_bytes = 4u << 20;

// Each that a rotation makes too, whatever the mask is by then: it is the ranks'. A device is
// everybody's and stays as it is: root who logs to /dev/null must not take it from the others.
spdlog::file_event_handlers for_owner_alone() {
  spdlog::file_event_handlers handlers;
  handlers.after_open = [](const std::string&, std::FILE* file) {
    struct stat facts {};
    const int descriptor = ::fileno(file);
    if (::fstat(descriptor, &facts) != 0 ||
        (S_ISREG(facts.st_mode) && ::fchmod(descriptor, 0600) != 0)) {
      throw spdlog::spdlog_ex("cannot set mode 0600");
    }
  };
  return handlers;
}

}  // namespace

void open_log(const std::filesystem::path& path, bool to_terminal) {
  try {
    auto sink = to_terminal
                    ? spdlog::sink_ptr(std::make_shared<spdlog::sinks::stderr_sink_st>())
                    : spdlog::sink_ptr(std::make_shared<spdlog::sinks::rotating_file_sink_st>(
                          path.string(), log_limit_bytes, 1, false, for_owner_alone()));
    auto logger = std::make_shared<spdlog::logger>("controller", std::move(sink));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    logger->flush_on(spdlog::level::info);
    logger->set_error_handler([](const std::string&) {});  // a full disk must not end the job
    spdlog::set_default_logger(std::move(logger));
  } catch (const std::exception&) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("none"));  // no log is better than no controller
  }
}

void log_info(const std::string& sentence) { spdlog::info("{}", sentence); }
void log_warning(const std::string& sentence) { spdlog::warn("{}", sentence); }
void log_error(const std::string& sentence) { spdlog::error("{}", sentence); }

}  // namespace muster
