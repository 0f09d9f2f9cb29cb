#include "cli/checkpoint/export.h"

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/checkpoint/subject.h"
#include "cli/client/find.h"
#include "cli/terminal/common_options.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "launcher/staging/content_hash.h"
#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/grading.h"
#include "runtime/export/export.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/spelling.h"

namespace muster {

namespace {

constexpr const char* sums_name = "SHA256SUMS";

// `5GB`, `500MB`, `2GiB`, `100000`: bytes; none for anything else, and for nothing.
std::optional<std::uint64_t> size_of(const std::string& text) {
  std::uint64_t amount = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, amount);
  if (parsed.ec != std::errc() || amount == 0) return std::nullopt;
  const std::string unit(parsed.ptr, end);
  constexpr std::uint64_t most = std::uint64_t{1} << 60;
  const std::pair<const char*, std::uint64_t> units[]{{"", 1},
                                                      {"B", 1},
                                                      {"KB", 1000},
                                                      {"MB", 1000'000},
                                                      {"GB", 1000'000'000},
                                                      {"KiB", 1ull << 10},
                                                      {"MiB", 1ull << 20},
                                                      {"GiB", 1ull << 30}};
  for (const auto& [name, bytes] : units) {
    if (folded(unit) == folded(name)) return amount <= most / bytes ? amount * bytes : most;
  }
  return std::nullopt;
}

Result<std::string> sha256_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ContentHash hash;
  std::vector<char> piece(1 << 20);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.add({piece.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (!file.eof()) return Error{path + ": cannot be read again for its SHA-256"};
  return hash.finish();
}

Checked<NoValue> write_sums(const std::string& directory, std::vector<ExportedFile>& files) {
  std::string text;
  for (const ExportedFile& file : files) {
    const auto sum = sha256_of(directory + "/" + file.name);
    if (!sum) return CheckpointFault{sum.error().message};
    text += *sum + "  " + file.name + "\n";
  }
  if (auto put = replace_durably(directory, sums_name, text); !put) return put;
  files.push_back({sums_name, text.size()});
  return NoValue{};
}

Document files_document(const ExportOptions& options, const std::string& from,
                        const std::vector<ExportedFile>& files) {
  Document list = Document::array();
  for (const ExportedFile& file : files) {
    list.push_back(Document{{"name", file.name}, {"bytes", file.bytes}});
  }
  return Document{{"checkpoint", from}, {"directory", options.directory}, {"files", list}};
}

std::string files_text(const ExportOptions& options, const std::vector<ExportedFile>& files) {
  std::uint64_t bytes = 0;
  std::string out;
  for (const ExportedFile& file : files) {
    out += options.directory + "/" + file.name + "  " + bytes_text(file.bytes) + "\n";
    bytes += file.bytes;
  }
  return out;
}

}  // namespace

int export_weights(const CheckpointExportOptions& wanted, const CommonOptions& common) {
  ExportOptions options;
  options.directory = wanted.directory;
  options.format = folded(wanted.format) == "onnx" ? ExportFormat::onnx : ExportFormat::safetensors;
  options.external_data = wanted.external_data;
  const bool is_onnx = options.format == ExportFormat::onnx;
  if (is_onnx ? !wanted.shard_size.empty() : wanted.external_data) {
    complain(is_onnx ? "--shard-size is for safetensors: leave it away with --format onnx"
                     : "--external-data is for ONNX: add --format onnx",
             common);
    return usage_error;
  }
  if (!wanted.shard_size.empty()) {
    const auto bytes = size_of(wanted.shard_size);
    if (!bytes) {
      complain("--shard-size: invalid size '" + wanted.shard_size + "'; write 500MB or 2GiB",
               common);
      return usage_error;
    }
    options.shard_bytes = *bytes;
  }
  const auto subject = single_checkpoint(Home::from_environment(), wanted.subject);
  if (!subject) {
    complain(subject.error().message, common);
    return no_such_job;
  }
  const CheckpointStanding standing = standing_of_checkpoint(subject->path());
  if (const auto* bad = std::get_if<CheckpointQuarantine>(&standing)) {
    notice("note: " + *subject->name + " is quarantined: " + bad->reason, common);
  }
  if (wanted.sha256) options.complete = write_sums;
  const auto files = export_checkpoint(subject->path(), options);
  if (!files) {
    complain("cannot export " + subject->path() + ": " + files.reason(), common);
    return no_such_job;
  }
  if (!wants_table(common)) {
    return print_document(files_document(options, subject->path(), files.value()), common);
  }
  write_all(Stream::out, files_text(options, files.value()));
  return 0;
}

}  // namespace muster
