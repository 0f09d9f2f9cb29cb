#include "templates/job/reading.h"

#include "scheduler/text/spelling.h"
#include "templates/yaml/path_form.h"
#include "templates/yaml/reader.h"

namespace muster {
namespace {

// A pipeline of a hundred components stays below it; a component that includes itself does not.
constexpr int max_files = 256;
constexpr std::size_t max_included_bytes = 2 * max_file_bytes;

}  // namespace

std::string Reading::local_path(const Value& value, const std::string& text) {
  const Place& place = value.node().place;
  return absolute_path(text, place.source ? place.source->directory : "/");
}

const YamlNode& Reading::keep(YamlNode node) {
  kept_.push_back(std::move(node));
  return kept_.back();
}

std::optional<Value> Reading::load(const Value& value, const std::string& text) {
  const std::string path = local_path(value, text);
  if (!options.files.read) {
    value.unresolved("the file " + quoted_text(path) + " cannot be read here");
    return std::nullopt;
  }
  if (sources_ >= max_files || bytes_ >= max_included_bytes) {
    value.error("too many included files; does " + quoted_text(path) + " include itself?");
    return std::nullopt;
  }
  Result<std::string> content = options.files.read(path, max_file_bytes);
  if (!content) {
    value.error(content.error().message);
    return std::nullopt;
  }
  bytes_ += content->size();
  const auto source = std::make_shared<Source>(
      Source{path, directory_of(path), std::string(without_byte_order_mark(*content)), ++sources_});
  std::optional<YamlNode> node = read_yaml(source, findings);
  if (!node) return std::nullopt;
  return Value(keep(std::move(*node)), "", findings);
}

}  // namespace muster
