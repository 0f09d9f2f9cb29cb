#include "runtime/checkpoint/grading.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/choose.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/protocol/checkpoint_layout.h"
#include "runtime/protocol/json_depth.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

struct Place {
  std::string root;
  std::string name;
};
Place place_of(const std::string& path) {
  const fs::path directory = normal_path(path);
  return {directory.parent_path().string(), directory.filename().string()};
}

// Why the state itself forbids any grade; empty: it does not.
std::string insanity(const Manifest& manifest) {
  for (const ShardRecord& shard : manifest.shards) {
    for (std::size_t plane = 0; plane < flat_planes; ++plane) {
      const std::uint64_t bad = shard.vitals[plane].nonfinite;
      if (bad == 0) continue;
      return shard.file + ": " + std::to_string(bad) + " values of " + flat_plane_names[plane] +
             " are not finite";
    }
  }
  return manifest.replica.agree ? "" : "the weights of the ranks differed when it was taken";
}

Checked<NoValue> grade(const std::string& path, CheckpointGrade wanted,
                       const GradingEvidence& evidence) {
  const Place place = place_of(path);
  if (auto newest = check_newest_generation(place.root, evidence.generation); !newest) {
    return newest.fault();
  }
  const auto manifest = read_manifest(path);
  if (!manifest) return CheckpointFault{path + ": " + manifest.reason()};
  if (const std::string why = insanity(manifest.value()); !why.empty()) {
    return CheckpointFault{path + ": is not sane: " + why};
  }
  if (wanted == CheckpointGrade::certified && evidence.at_step <= manifest.value().step) {
    return CheckpointFault{path + ": nothing was trained after it yet"};
  }
  const CheckpointStanding known = standing_of_checkpoint(path);
  if (const auto* bad = std::get_if<CheckpointQuarantine>(&known)) {
    return CheckpointFault{path + ": is quarantined: " + bad->reason};
  }
  if (std::get<CheckpointGrade>(known) >= wanted) return NoValue{};
  Certificate certificate;
  certificate.checkpoint = place.name;
  certificate.standing = wanted;
  certificate.evidence = evidence.sentences;
  certificate.at_step = evidence.at_step;
  certificate.generation = evidence.generation;
  return write_certificate(path, certificate);
}

}  // namespace

Checked<NoValue> mark_sane(const std::string& path, const GradingEvidence& evidence) {
  return grade(path, CheckpointGrade::sane, evidence);
}

Checked<NoValue> certify(const std::string& path, const GradingEvidence& evidence) {
  return grade(path, CheckpointGrade::certified, evidence);
}

CheckpointStanding standing_of_checkpoint(const std::string& path) {
  return standing_in(read_resume_log(place_of(path).root), path);
}

Checked<NoValue> release_checkpoint(const std::string& path, const std::string& reason) {
  const Place place = place_of(path);
  if (!std::holds_alternative<CheckpointQuarantine>(standing_of_checkpoint(path))) {
    return CheckpointFault{path + ": is not quarantined"};
  }
  const std::string line = format_release_line(place.name, reason);
  auto logged = append_line_durably(place.root, checkpoint_log_name, line);
  if (!logged) return logged.fault();
  Certificate certificate;
  certificate.checkpoint = place.name;
  certificate.evidence = {"released: " + reason};
  return write_certificate(path, certificate);
}

Checked<NoValue> pin_checkpoint(const std::string& path, const std::string& reason) {
  const fields::Json pin = {{"format", "muster-pin"}, {"version", 1}, {"reason", reason}};
  const auto replace = fields::Json::error_handler_t::replace;
  return replace_durably(path, checkpoint_pin_name, seal_json(pin.dump(-1, ' ', false, replace)));
}

Checked<NoValue> unpin_checkpoint(const std::string& path) {
  const std::string pin = path + "/" + checkpoint_pin_name;
  if (::unlink(pin.c_str()) != 0) {
    if (errno == ENOENT) return CheckpointFault{path + ": is not pinned"};
    return CheckpointFault{pin + ": cannot be removed: " + std::strerror(errno)};
  }
  return sync_checkpoint_directory(path);
}

bool is_pinned(const std::string& path) {
  std::error_code code;
  return fs::exists(path + "/" + checkpoint_pin_name, code) || code;
}

std::string pin_reason(const std::string& path) {
  constexpr std::uint64_t limit_bytes = 1 << 20;
  const auto text = read_checkpoint_text(path + "/" + checkpoint_pin_name, limit_bytes);
  if (!text || !is_committed_json(text.value()) || nests_too_deeply(text.value())) return "";
  const auto pin = fields::Json::parse(text.value(), nullptr, false);
  const auto reason = pin.is_object() ? pin.find("reason") : pin.end();
  return reason != pin.end() && reason->is_string() ? reason->get<std::string>() : "";
}

}  // namespace muster
