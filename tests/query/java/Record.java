import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** For each pattern one line: T or F for each text as Matcher.find answers, or ! if Java refuses the pattern. */
class Record {
    public static void main(String[] args) throws Exception {
        List<String> patterns = read(args[0]);
        List<String> texts = read(args[1]);
        try (PrintStream out = new PrintStream(args[2], "UTF-8")) {
            for (String each : patterns) {
                out.println(answers(each, texts));
            }
        }
    }

    private static String answers(String each, List<String> texts) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(each);
        } catch (PatternSyntaxException refused) {
            return "!";
        }
        StringBuilder found = new StringBuilder();
        for (String text : texts) {
            found.append(pattern.matcher(text).find(0) ? 'T' : 'F');
        }
        return found.toString();
    }

    /** One text a line, in Base64. */
    private static List<String> read(String path) throws Exception {
        List<String> found = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(path))) {
            found.add(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8));
        }
        return found;
    }
}
