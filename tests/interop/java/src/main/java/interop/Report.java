package interop;

import java.util.Properties;

/** One line for each check: {@code ok NAME} or {@code FAIL NAME: why}. */
final class Report {
    /** A check; whatever it throws is why it failed. */
    interface Check {
        void run() throws Exception;
    }

    private boolean failed;

    void check(String name, Check check) {
        try {
            check.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failed = true;
            String why = (error + " (" + where(error) + ")").replaceAll("\\s+", " ");
            System.out.println("FAIL " + name + ": " + why);
        }
    }

    /** Says which version of a client is checked, as its jar knows it. */
    void version(String client, String group, String artifact) throws Exception {
        String path = "/META-INF/maven/" + group + "/" + artifact + "/pom.properties";
        var properties = new Properties();
        try (var stream = Report.class.getResourceAsStream(path)) {
            properties.load(stream);
        }
        version(client, properties.getProperty("version"));
    }

    void version(String client, String version) {
        System.out.println("version " + client + " Java " + version);
    }

    boolean hasFailed() {
        return failed;
    }

    static void expect(boolean holds, String otherwise) {
        if (!holds) throw new AssertionError(otherwise);
    }

    static void equal(Object found, Object expected) {
        expect(expected.equals(found), "expected " + expected + ", found " + found);
    }

    static void between(long found, long low, long high) {
        expect(low <= found && found <= high, "expected " + low + ".." + high + ", found " + found);
    }

    /** The line of a check that an error comes from. */
    private static String where(Throwable error) {
        for (StackTraceElement frame : error.getStackTrace()) {
            boolean ours = frame.getClassName().startsWith("interop.");
            if (ours && !frame.getClassName().equals(Report.class.getName())) {
                return frame.getFileName() + ":" + frame.getLineNumber();
            }
        }
        return "no line of a check";
    }
}
