# Writes OUTPUT, a C++ source with the text of INPUT; run as cmake -P.
file(READ ${INPUT} text)
file(WRITE ${OUTPUT} "#include \"launcher/agent/keeper/files.h\"

namespace muster {

std::string_view python_module() {
  return R\"python(${text})python\";
}

}  // namespace muster
")
