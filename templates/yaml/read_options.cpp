#include "templates/yaml/read_options.h"

#include "templates/yaml/path_form.h"
#include "templates/yaml/reader.h"
#include "templates/yaml/set_option.h"

namespace muster {

namespace {

// After every file that a job may include (reading.cpp).
constexpr int first_set_order = 1000000;

}  // namespace

std::shared_ptr<const YamlNode> parse_with_sets(const std::string& path, std::string_view text,
                                            const ReadOptions& options, FindingList& findings) {
  auto source = std::make_shared<Source>();
  source->path = path;
  source->directory = directory_of(absolute_path(path, options.cwd));
  source->text = without_byte_order_mark(text);
  std::optional<YamlNode> tree = read_yaml(source, findings);
  if (!tree) return nullptr;
  if (tree->kind == YamlNode::Kind::null) tree->place = Place{source, 0, 0};
  int order = first_set_order;
  for (const std::string& set : options.sets) {
    apply_set(*tree, set, source->directory, order++, findings);
  }
  return std::make_shared<const YamlNode>(std::move(*tree));
}

}  // namespace muster
