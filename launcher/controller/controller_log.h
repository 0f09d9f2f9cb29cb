// The controller's log file, `$MUSTER_HOME/controller.log`: rotated at 4 MiB, one older file kept.
// The only place that includes spdlog.
#pragma once

#include <filesystem>
#include <string>

namespace muster {

void open_log(const std::filesystem::path& path, bool to_terminal);
void log_info(const std::string& sentence);
void log_warning(const std::string& sentence);
void log_error(const std::string& sentence);

}  // namespace muster
